"""What vkbench asks of a forge: one comment that is edited, a status of a commit, issues.

Whatever it writes begins with a hidden marker. By that it finds what it wrote before, also where
the process that wrote it died before it noted the number.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from vkbench.errors import ServiceUnreachable
from vkbench.messages.exchange import Answer, Unanswered, exchange

TIMEOUT_SECONDS = 10.0  # of one request
TRIES = 3  # of a request that the forge did not answer, or answered with 429 or 5xx
LONGEST_PAUSE_SECONDS = 30.0  # between two tries, whatever the forge asks for
PAGE = 100  # entries of a list that one request asks for
MOST_PAGES = 50
LABEL = "vkbench"  # of the issues that are opened

_WHY = {
    401: "it does not know the token, or the token is too old",
    403: "the token may not do this",
    404: "there is nothing of this name that the token may see",
    410: "issues are switched off there",
}


class ForgeError(ServiceUnreachable):
    """The forge did not do what it was asked for."""


class ForgeRefuses(ForgeError):
    """The forge knows the token, which may not do what was asked for."""


class _PassingTrouble(Exception):
    """The same request may be answered otherwise after a wait."""

    def __init__(self, message: str, wait: float) -> None:
        super().__init__(message)
        self.wait = wait  # seconds


class CommitState(StrEnum):
    """What a status says of a commit."""

    SUCCESS = "success"
    FAILURE = "failure"
    ERROR = "error"  # nothing is known: it was not measured
    PENDING = "pending"


@dataclass(frozen=True, kw_only=True)
class CommitStatus:
    """A status of a commit, under a name that one status of it has."""

    commit: str  # hash
    state: CommitState
    name: str
    description: str  # a line
    link: str = ""  # where more is


@dataclass(frozen=True, kw_only=True)
class Issue:
    """An issue of a forge."""

    number: int
    link: str
    is_open: bool


class Forge(Protocol):
    """One repository of a forge."""

    def write_comment(self, number: int, marker: str, text: str) -> str:
        """Write or edit the comment with a marker on a pull request; its link."""

    def set_status(self, status: CommitStatus) -> None:
        """Set the status of a commit."""

    def find_issue(self, marker: str) -> Issue | None:
        """The issue whose text has this marker."""

    def open_issue(self, title: str, marker: str, text: str) -> Issue:
        """Open an issue with a title and a text."""

    def note_issue(self, number: int, marker: str, text: str) -> None:
        """Write or edit the comment with a marker on an issue."""

    def move_issue(self, number: int, *, is_open: bool) -> None:
        """Open an issue again, or close it."""


def mark(marker: str) -> str:
    """A comment of HTML that no reader sees, and that tells what is ours."""
    return f"<!-- vkbench {marker} -->"


def put_marker(marker: str, text: str) -> str:
    """Text with its marker before it."""
    return f"{mark(marker)}\n{text}"


@dataclass(frozen=True, kw_only=True)
class Connection:
    """The HTTP interface of a forge: requests in JSON with a token, a few tries each."""

    name: str  # of the forge, for messages
    url: str  # of the interface
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    tries: int = TRIES
    pause: Callable[[float], None] = time.sleep

    def ask(self, method: str, path: str, values: Mapping[str, Any] | None = None) -> Any:
        """What the forge answers to a request; ForgeError unless it is answered with 2xx."""
        return self._repeat(lambda: self._ask_once(method, path, values))

    def edit_or_post(self, path: str, values: Mapping[str, Any], edit: Callable[[], Any]) -> Any:
        """What an edit of ours answers, or a POST where `edit` finds nothing (None).

        It looks before each try: a POST whose answer was lost may have been done.
        """
        return self._repeat(lambda: edit() or self._ask_once("POST", path, values))

    def list(self, path: str) -> Iterator[dict[str, Any]]:
        """The entries of a list, page by page."""
        sign = "&" if "?" in path else "?"
        for page in range(1, MOST_PAGES + 1):
            entries = self.ask("GET", f"{path}{sign}per_page={PAGE}&page={page}")
            yield from entries
            if len(entries) < PAGE:
                return

    def _repeat(self, attempt: Callable[[], Any]) -> Any:
        """What an attempt answers; one that fails by what may pass is made again."""
        for left in reversed(range(self.tries)):
            try:
                return attempt()
            except _PassingTrouble as trouble:
                if not left:
                    tries = f" ({self.tries} tries)" if self.tries > 1 else ""
                    raise ForgeError(f"{trouble}{tries}") from trouble
                self.pause(min(trouble.wait, LONGEST_PAUSE_SECONDS))
        raise AssertionError("a connection makes at least one try")

    def _ask_once(self, method: str, path: str, values: Mapping[str, Any] | None) -> Any:
        body = None if values is None else json.dumps(values).encode()
        what = f"{self.name}: {method} {path.partition('?')[0]}"
        try:
            answer = self._send(method, path, body)
        except Unanswered as error:
            raise _PassingTrouble(f"{what}: {self.url} {error}", 1.0) from error
        if 200 <= answer.code < 300:
            return _parse(self.name, answer)
        trouble = _describe(what, answer)
        if _is_passing(answer):
            raise _PassingTrouble(trouble, _pause_seconds(answer))
        raise ForgeRefuses(trouble) if answer.code == 403 else ForgeError(trouble)

    def _send(self, method: str, path: str, body: bytes | None) -> Answer:
        headers = {
            "Accept": "application/json",
            "User-Agent": "vkbench",
            "Content-Type": "application/json",
            **self.headers,
        }
        url = self.url.rstrip("/") + path
        return exchange(method, url, headers, body, seconds=TIMEOUT_SECONDS)


def _is_passing(answer: Answer) -> bool:
    """Whether the same request may be answered otherwise a little later."""
    is_limited = answer.code == 403 and "retry-after" in answer.headers
    return answer.code in (408, 429) or answer.code >= 500 or is_limited


def _pause_seconds(answer: Answer) -> float:
    try:
        return max(float(answer.headers["retry-after"]), 0.0)
    except (KeyError, ValueError):
        return 1.0


def _describe(what: str, answer: Answer) -> str:
    why = _WHY.get(answer.code, "")
    if answer.code == 429 or (answer.code == 403 and _is_passing(answer)):
        why = "it was asked too often"
    elif answer.code >= 500:
        why = "the forge has trouble of its own"
    elif 300 <= answer.code < 400:
        why = "it lies elsewhere: redirects are not followed"
    said = _message(answer.body)
    words = [f"{what}: {answer.code} {answer.reason}", why, f"it says: {said}" if said else ""]
    return "; ".join(word for word in words if word)


def _message(body: bytes) -> str:
    """What the forge says of an error, in a line."""
    try:
        told = json.loads(body)
    except ValueError:
        return ""
    message = told.get("message") or told.get("error") if isinstance(told, dict) else ""
    return " ".join(str(message or "").split())[:200]


def _parse(name: str, answer: Answer) -> Any:
    if not answer.body:
        return None
    try:
        return json.loads(answer.body)
    except ValueError as error:
        raise ForgeError(f"{name}: its answer is no JSON: is the URL that of its API?") from error
