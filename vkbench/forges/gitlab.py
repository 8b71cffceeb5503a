"""GitLab's interface, version 4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from vkbench.forges.forge import (
    LABEL,
    CommitState,
    CommitStatus,
    Connection,
    Issue,
    mark,
    put_marker,
)

URL = "https://gitlab.com/api/v4"
MOST_DESCRIPTION = 255  # characters of a status
_STATES = {
    CommitState.FAILURE: "failed",
    CommitState.ERROR: "failed",  # it has no other
    CommitState.PENDING: "running",
}


@dataclass(frozen=True, kw_only=True)
class GitLab:
    """A project of GitLab, there or of one's own."""

    connection: Connection
    repository: str  # GROUP/NAME, or its number

    def write_comment(self, number: int, marker: str, text: str) -> str:
        """Write or edit the note with a marker on a merge request; its place."""
        return self._write_note(f"/merge_requests/{number}", marker, text)

    def set_status(self, status: CommitStatus) -> None:
        """Set the status of a commit."""
        values = {
            "state": _STATES.get(status.state, str(status.state)),
            "name": status.name,
            "description": status.description[:MOST_DESCRIPTION],
        }
        more = {"target_url": status.link} if status.link else {}
        self.connection.ask("POST", self._path(f"/statuses/{status.commit}"), values | more)

    def find_issue(self, marker: str) -> Issue | None:
        """The issue whose text begins with this marker."""
        for issue in self.connection.list(self._path(f"/issues?labels={LABEL}")):
            if (issue["description"] or "").startswith(mark(marker)):
                return _issue_of(issue)
        return None

    def open_issue(self, title: str, marker: str, text: str) -> Issue:
        """Open an issue with a title and a text."""
        values = {"title": title, "description": put_marker(marker, text), "labels": LABEL}
        return _issue_of(self.connection.ask("POST", self._path("/issues"), values))

    def note_issue(self, number: int, marker: str, text: str) -> None:
        """Write or edit the note with a marker on an issue."""
        self._write_note(f"/issues/{number}", marker, text)

    def move_issue(self, number: int, *, is_open: bool) -> None:
        """Open an issue again, or close it."""
        values = {"state_event": "reopen" if is_open else "close"}
        self.connection.ask("PUT", self._path(f"/issues/{number}"), values)

    def _write_note(self, place: str, marker: str, text: str) -> str:
        notes = self._path(f"{place}/notes")
        body = {"body": put_marker(marker, text)}

        def edit() -> Any:
            for note in self.connection.list(f"{notes}?sort=asc"):
                if note["body"].startswith(mark(marker)):
                    self.connection.ask("PUT", f"{notes}/{note['id']}", body)
                    return note
            return None

        note = self.connection.edit_or_post(notes, body, edit)
        return f"{self.repository}{place}#note_{note['id']}"

    def _path(self, rest: str) -> str:
        return f"/projects/{quote(self.repository, safe='')}{rest}"


def headers_of(token: str) -> dict[str, str]:
    """The headers that show a token to GitLab."""
    return {"PRIVATE-TOKEN": token}


def _issue_of(issue: Mapping[str, Any]) -> Issue:
    return Issue(number=issue["iid"], link=issue["web_url"], is_open=issue["state"] == "opened")
