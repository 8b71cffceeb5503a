"""GitHub's interface, version 2022-11-28."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vkbench.forges.forge import LABEL, CommitStatus, Connection, Issue, mark, put_marker

URL = "https://api.github.com"
MOST_DESCRIPTION = 140  # characters of a status


@dataclass(frozen=True, kw_only=True)
class GitHub:
    """A repository of GitHub, or of a GitHub of one's own."""

    connection: Connection
    repository: str  # OWNER/NAME

    def write_comment(self, number: int, marker: str, text: str) -> str:
        """Write or edit the comment with a marker on a pull request or issue; its link."""
        comments = self._path(f"/issues/{number}/comments")
        body = {"body": put_marker(marker, text)}

        def edit() -> Any:
            for comment in self.connection.list(comments):
                if (comment["body"] or "").startswith(mark(marker)):
                    place = self._path(f"/issues/comments/{comment['id']}")
                    return self.connection.ask("PATCH", place, body)
            return None

        return str(self.connection.edit_or_post(comments, body, edit)["html_url"])

    def set_status(self, status: CommitStatus) -> None:
        """Set the status of a commit."""
        values = {
            "state": str(status.state),
            "context": status.name,
            "description": status.description[:MOST_DESCRIPTION],
        }
        more = {"target_url": status.link} if status.link else {}
        self.connection.ask("POST", self._path(f"/statuses/{status.commit}"), values | more)

    def find_issue(self, marker: str) -> Issue | None:
        """The issue whose text begins with this marker."""
        for issue in self.connection.list(self._path(f"/issues?labels={LABEL}&state=all")):
            if (issue["body"] or "").startswith(mark(marker)):
                return _issue_of(issue)
        return None

    def open_issue(self, title: str, marker: str, text: str) -> Issue:
        """Open an issue with a title and a text."""
        values = {"title": title, "body": put_marker(marker, text), "labels": [LABEL]}
        return _issue_of(self.connection.ask("POST", self._path("/issues"), values))

    def note_issue(self, number: int, marker: str, text: str) -> None:
        """Write or edit the comment with a marker on an issue."""
        self.write_comment(number, marker, text)

    def move_issue(self, number: int, *, is_open: bool) -> None:
        """Open an issue again, or close it."""
        values = {"state": "open" if is_open else "closed"}
        self.connection.ask("PATCH", self._path(f"/issues/{number}"), values)

    def _path(self, rest: str) -> str:
        return f"/repos/{self.repository}{rest}"


def headers_of(token: str) -> dict[str, str]:
    """The headers that show a token to GitHub."""
    return {"Authorization": f"Bearer {token}", "X-GitHub-Api-Version": "2022-11-28"}


def _issue_of(issue: Mapping[str, Any]) -> Issue:
    return Issue(number=issue["number"], link=issue["html_url"], is_open=issue["state"] == "open")
