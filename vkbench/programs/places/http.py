"""Builds that the scheduler's host serves: `vkbench scheduler --builds`, over HTTP or HTTPS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from vkbench.errors import UsageError
from vkbench.messages.urls import hide_password
from vkbench.programs.places.place import (
    PIECE_BYTES,
    CheckedFile,
    NotThere,
    PlaceUnreachable,
    check_key,
)
from vkbench.words.visible import visible

# What a header says of a request: its method, its key, and the hash of what it brings, if anything
Sign = Callable[[str, str, str], str]

SILENCE_SECONDS: Final = 20.0  # in which each answer, and each piece of it, has to come
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_MOST_WORDS: Final = 300


class HttpPlace:
    """Builds behind a URL; each request is signed."""

    def __init__(self, url: str, sign: Sign) -> None:
        parts = urlsplit(url)
        if not parts.hostname or parts.query or parts.fragment or parts.username:
            raise UsageError(f"'{hide_password(url)}' (VKBENCH_STORE) is no http://HOST:PORT")
        self._host, self._port, self._folder = parts.hostname, parts.port, parts.path.rstrip("/")
        self._is_secret = parts.scheme == "https"
        self._sign = sign
        self.name = url

    def has(self, key: str, nbytes: int) -> bool:
        try:
            with self._ask("HEAD", key) as answer:
                return answer.headers.get("Content-Length") == str(nbytes)
        except NotThere:
            return False

    @contextmanager
    def read(self, key: str, start: int = 0) -> Iterator[Iterator[bytes]]:
        headers = {"Range": f"bytes={start}-"} if start else {}
        with self._ask("GET", key, headers) as answer:
            if start and answer.status != 206:
                raise PlaceUnreachable(f"{self.name} does not read files from their middle on")
            yield self._pieces_of(answer)

    def write(self, key: str, file: CheckedFile) -> None:
        headers = {"Content-Length": str(file.nbytes), "Content-Type": "application/octet-stream"}
        with self._ask("PUT", key, headers, file):
            pass

    @contextmanager
    def _ask(
        self,
        method: str,
        key: str,
        headers: Mapping[str, str] = NO_HEADERS,
        body: CheckedFile | None = None,
    ) -> Iterator[HTTPResponse]:
        """The answer to a request; NotThere, or PlaceUnreachable with the reason."""
        signed = self._sign(method, check_key(key), body.sha if body else "")
        kind = HTTPSConnection if self._is_secret else HTTPConnection
        connection = kind(self._host, self._port, timeout=SILENCE_SECONDS, blocksize=PIECE_BYTES)
        with closing(connection):
            with self._report_trouble():
                with suppress(BrokenPipeError, ConnectionResetError):  # it may have said why
                    words = {**headers, "Authorization": signed}
                    connection.request(method, f"{self._folder}/{key}", body, words)
                answer = connection.getresponse()
                self._check_status(answer, key)
            yield answer

    def _check_status(self, answer: HTTPResponse, key: str) -> None:
        if answer.status == 404:
            raise NotThere(f"{self.name} has no {key}")
        if answer.status >= 300:
            words = visible(answer.read(_MOST_WORDS).decode(errors="replace")).strip()
            raise PlaceUnreachable(f"{self.name} answers {answer.status}: {words}")

    def _pieces_of(self, answer: HTTPResponse) -> Iterator[bytes]:
        while True:
            with self._report_trouble():
                piece = answer.read(PIECE_BYTES)
            if not piece:
                return
            yield piece

    @contextmanager
    def _report_trouble(self) -> Iterator[None]:
        try:
            yield
        except (OSError, HTTPException) as error:
            reason = str(error) or type(error).__name__
            raise PlaceUnreachable(f"{self.name} does not answer: {reason}") from error
