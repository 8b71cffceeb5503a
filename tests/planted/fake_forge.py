"""A web server that stands for GitHub and GitLab: comments, statuses and issues of one repository.

It answers by the paths and fields that both document, and keeps what it was sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "token-of-the-fake-forge"
Entry = dict[str, Any]


@dataclass
class FakeForge:
    """What one repository of a forge holds, and the answers that it gives before the right ones."""

    answers: list[int] = field(default_factory=list)  # codes; then it works
    lost: int = 0  # requests that it does, and answers with 502
    requests: list[tuple[str, str]] = field(default_factory=list)
    comments: dict[int, list[Entry]] = field(default_factory=dict)  # by number of pull or issue
    statuses: list[Entry] = field(default_factory=list)
    issues: list[Entry] = field(default_factory=list)
    readers: list[str] = field(default_factory=list)  # tokens that may only read
    url: str = ""
    lock: Lock = field(default_factory=Lock)
    _last_id: int = 1000

    def answer(self, method: str, path: str, query: dict[str, list[str]], sent: Entry) -> Any:
        """What the forge answers; None where it has no such path."""
        for row_method, pattern, act in _ROUTES:
            match = re.fullmatch(pattern, path)
            if match and row_method == method:
                return act(self, *map(int, match.groups()[-2:]), query=query, sent=sent)
        status = re.fullmatch(r"(?:/repos/a/b|/projects/a%2Fb)/statuses/(\w+)", path)
        if status and method == "POST":
            self.statuses.append({"commit": status[1], **sent})
            return sent
        return None

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id


def _page(entries: list[Entry], query: dict[str, list[str]]) -> list[Entry]:
    size, page = int(query["per_page"][0]), int(query["page"][0])
    return entries[(page - 1) * size : page * size]


def _list_comments(forge: FakeForge, number: int, *, query: Any, sent: Entry) -> Any:
    return _page(forge.comments.get(number, []), query)


def _write_comment(forge: FakeForge, number: int, *, query: Any, sent: Entry) -> Any:
    made = {"id": forge.next_id(), "body": sent["body"], "edits": 0}
    made["html_url"] = f"https://forge/{number}#{made['id']}"
    forge.comments.setdefault(number, []).append(made)
    return made


def _edit_comment(forge: FakeForge, *numbers: int, query: Any, sent: Entry) -> Any:
    for comment in (one for many in forge.comments.values() for one in many):
        if comment["id"] == numbers[-1]:
            comment |= {"body": sent["body"], "edits": comment["edits"] + 1}
            return comment
    return None


def _list_issues(forge: FakeForge, *, query: Any, sent: Entry) -> Any:
    wanted = [issue for issue in forge.issues if query["labels"][0] in issue["labels"]]
    return _page(wanted[::-1], query)


def _open_issue(forge: FakeForge, *, query: Any, sent: Entry) -> Any:
    number = len(forge.issues) + 1
    text = sent.get("body") or sent.get("description")
    made = {"number": number, "iid": number, "title": sent["title"], "labels": sent["labels"]}
    links = {"html_url": f"https://forge/{number}", "web_url": f"https://forge/{number}"}
    forge.issues.append(made | links | {"body": text, "description": text, "state": "open"})
    return _shown(forge, forge.issues[-1])


def _move_issue(forge: FakeForge, number: int, *, query: Any, sent: Entry) -> Any:
    issue = forge.issues[number - 1]
    wanted = sent.get("state") or {"close": "closed", "reopen": "open"}[sent["state_event"]]
    issue["state"] = wanted
    return _shown(forge, issue)


def _shown(forge: FakeForge, issue: Entry) -> Entry:
    return issue


_REPO = r"/repos/a/b"
_PROJECT = r"/projects/a%2Fb"
_ROUTES: tuple[tuple[str, str, Any], ...] = (
    ("GET", rf"{_REPO}/issues/(\d+)/comments", _list_comments),
    ("POST", rf"{_REPO}/issues/(\d+)/comments", _write_comment),
    ("PATCH", rf"{_REPO}/issues/comments/(\d+)", _edit_comment),
    ("GET", rf"{_REPO}/issues", _list_issues),
    ("POST", rf"{_REPO}/issues", _open_issue),
    ("PATCH", rf"{_REPO}/issues/(\d+)", _move_issue),
    ("GET", rf"{_PROJECT}/(?:merge_requests|issues)/(\d+)/notes", _list_comments),
    ("POST", rf"{_PROJECT}/(?:merge_requests|issues)/(\d+)/notes", _write_comment),
    ("PUT", rf"{_PROJECT}/(?:merge_requests|issues)/(\d+)/notes/(\d+)", _edit_comment),
    ("GET", rf"{_PROJECT}/issues", _list_issues),
    ("POST", rf"{_PROJECT}/issues", _open_issue),
    ("PUT", rf"{_PROJECT}/issues/(\d+)", _move_issue),
)


@contextmanager
def forge_running(*answers: int) -> Iterator[FakeForge]:
    """A fake forge with a repository `a/b`, which first answers with these codes."""
    forge = FakeForge(answers=list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            sent = json.loads(self.rfile.read(length)) if length else {}
            with forge.lock:
                forge.requests.append((self.command, parts.path))
                code, answer = self._answer(parts.path, parse_qs(parts.query), sent)
            body = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            if code == 429:
                self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PUT = do_PATCH = do_GET

        def _answer(self, path: str, query: Any, sent: Entry) -> tuple[int, Any]:
            if forge.answers and (code := forge.answers.pop(0)) != 200:
                return code, {"message": f"planted {code}"}
            shown = self.headers.get("PRIVATE-TOKEN") or self.headers.get("Authorization") or ""
            token = shown.removeprefix("Bearer ")
            if token in forge.readers and self.command != "GET":
                return 403, {"message": "Resource not accessible by integration"}
            if token not in (TOKEN, *forge.readers):
                return 401, {"message": "Bad credentials"}
            answer = forge.answer(self.command, path, query, sent)
            if forge.lost and self.command != "GET":
                forge.lost -= 1
                return 502, {}
            return (404, {"message": "Not Found"}) if answer is None else (200, answer)

        def log_message(self, format: str, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        forge.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield forge
        finally:
            server.shutdown()
            thread.join()
