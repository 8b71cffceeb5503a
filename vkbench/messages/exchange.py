"""One HTTP request, over within a time whatever the other server does; it follows no redirect."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from socket import SHUT_RDWR
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.request import (
    AbstractHTTPHandler,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    Request,
    build_opener,
)

MOST_BYTES = 32 * 2**20  # of an answer that is read


class Unanswered(Exception):
    """The server cannot be reached, or did not answer in time."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a server answered, whatever its code is."""

    code: int
    reason: str
    headers: Mapping[str, str] = field(default_factory=dict)  # names in small letters
    body: bytes = b""


def exchange(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    *,
    seconds: float,
    most_bytes: int = MOST_BYTES,
) -> Answer:
    """Send a request and read its answer; Unanswered unless both end within these seconds."""
    try:
        request = Request(url, data=body, headers=dict(headers), method=method)
    except ValueError as error:
        raise Unanswered(f"cannot be reached: {error}") from error
    sending = _Sending(request, seconds, most_bytes)
    sending.start()
    sending.join(seconds)
    if sending.is_alive():  # each address, and each byte of the answer, may take so long
        sending.give_up()
        raise Unanswered(f"did not answer within {seconds:g} s")
    if isinstance(sending.error, OSError | HTTPException | ValueError):
        raise Unanswered(f"cannot be reached: {sending.error}") from sending.error
    if sending.error:
        raise sending.error
    assert sending.answer
    return sending.answer


class _Sending(Thread):
    """A request under way, whose connections can be broken from outside."""

    def __init__(self, request: Request, seconds: float, most_bytes: int) -> None:
        super().__init__(daemon=True)
        self._request = request
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._connections: list[HTTPConnection] = []
        self.error: Exception | None = None
        self.answer: Answer | None = None

    def run(self) -> None:
        """Send the request, and keep the answer or what went wrong."""
        handlers = (_NoRedirect, _Http(self._connections), _Https(self._connections))
        try:
            with build_opener(*handlers).open(self._request, timeout=self._seconds) as response:
                self.answer = _read_answer(response, self._most_bytes)
        except HTTPError as error:
            with error:
                self._keep_error(error)
        except Exception as error:
            self.error = error

    def give_up(self) -> None:
        """Break its connections, so that its thread ends."""
        for connection in self._connections:
            if connection.sock:
                with suppress(OSError):
                    connection.sock.shutdown(SHUT_RDWR)

    def _keep_error(self, error: HTTPError) -> None:
        """An answer with a code of an error is an answer, also where its body is cut off."""
        headers = {name.lower(): text for name, text in error.headers.items()}
        body = b""
        with suppress(OSError, HTTPException):
            body = error.read(self._most_bytes)
        self.answer = Answer(code=error.code, reason=error.reason, headers=headers, body=body)


def _read_answer(response: Any, most_bytes: int) -> Answer:
    return Answer(
        code=response.status,
        reason=response.reason,
        headers={name.lower(): text for name, text in response.headers.items()},
        body=response.read(most_bytes),
    )


class _Keeping(AbstractHTTPHandler):
    """Keeps the connections that it makes, so that they can be broken."""

    def __init__(self, connections: list[HTTPConnection]) -> None:
        super().__init__()
        self._connections = connections

    def do_open(self, http_class: Any, req: Request, **more: Any) -> HTTPResponse:
        """Open a connection of this class, as urllib does."""

        def connect(*words: Any, **named: Any) -> HTTPConnection:
            connection: HTTPConnection = http_class(*words, **named)
            self._connections.append(connection)
            return connection

        return super().do_open(connect, req, **more)


class _Http(_Keeping, HTTPHandler):
    pass


class _Https(_Keeping, HTTPSHandler):
    pass


class _NoRedirect(HTTPRedirectHandler):
    """Refuses redirects: a message goes to its URL, or nowhere."""

    def redirect_request(self, *arguments: object, **named: object) -> None:
        return None
