"""A signed webhook, as standardwebhooks.com has it: receivers may use its libraries to verify."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from contextlib import suppress
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

from vkbench_scheduler.errors import AlertFailed

TIMEOUT_SECONDS = 10.0
PREFIX = "whsec_"  # of a secret that is base64; any other one is taken letter by letter


def post(url: str, secret: str, message: str, body: bytes, timestamp: int) -> None:
    """Send a body, JSON, under a message's id; AlertFailed unless it is answered with 2xx."""
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "vkbench",
        "webhook-id": message,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(secret, message, timestamp, body),
    }
    sending = _Sending(url, body, headers)
    sending.start()
    sending.join(TIMEOUT_SECONDS)
    if sending.is_alive():  # each address, and each byte of the answer, may take so long
        sending.give_up()
        raise AlertFailed(f"the webhook did not answer within {TIMEOUT_SECONDS:g} s")
    _check(sending.error)


def _check(error: Exception | None) -> None:
    """Raise AlertFailed if sending failed."""
    if isinstance(error, HTTPError):
        with error:
            raise AlertFailed(f"the webhook answered {error.code} {error.reason}") from error
    if isinstance(error, OSError | HTTPException | ValueError):
        raise AlertFailed(f"the webhook cannot be reached: {error}") from error
    if error:
        raise error


def signature(secret: str, message: str, timestamp: int, body: bytes) -> str:
    """HMAC-SHA256 over id, time and body, so that none of them can be another message's."""
    signed = b".".join([message.encode(), str(timestamp).encode(), body])
    digest = hmac.new(key_of(secret), signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def key_of(secret: str) -> bytes:
    """The bytes that a secret stands for; AlertFailed for a malformed one."""
    if not secret.startswith(PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error as error:
        raise AlertFailed(f"VKBENCH_ALERT_SECRET: after {PREFIX} comes no base64") from error


class _Sending(Thread):
    """A request under way, whose connections can be broken from outside."""

    def __init__(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        super().__init__(daemon=True)
        self._message = (url, body, headers)
        self._connections: list[HTTPConnection] = []
        self.error: Exception | None = None

    def run(self) -> None:
        """Send the message; the body of the answer is not read."""
        url, body, headers = self._message
        handlers = (_NoRedirect, _Http(self._connections), _Https(self._connections))
        try:
            request = Request(url, data=body, headers=dict(headers), method="POST")
            with build_opener(*handlers).open(request, timeout=TIMEOUT_SECONDS):
                pass
        except Exception as error:
            self.error = error

    def give_up(self) -> None:
        """Break its connections, so that its thread ends."""
        for connection in self._connections:
            if connection.sock:
                with suppress(OSError):
                    connection.sock.shutdown(SHUT_RDWR)


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
