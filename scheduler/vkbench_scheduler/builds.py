"""Serves the builds of this host's folder to the hosts of the fleet, over HTTP.

Files alone, each under its hash: nothing is listed. Requests are signed (`places/requests.py`);
workers read, from any byte on, and who holds the scheduler's key brings files whose hash is right.
"""

from __future__ import annotations

import io
import logging
import re
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from vkbench.errors import UsageError, VkbenchError
from vkbench.messages.keys import keys_for
from vkbench.messages.signing import Keys
from vkbench.process import log
from vkbench.programs.build import MOST_BYTES, NoBuild
from vkbench.programs.places.folder import FolderPlace
from vkbench.programs.places.opening import open_folder
from vkbench.programs.places.place import (
    MOST_SIGNED_BYTES,
    CheckedFile,
    NotThere,
    OtherBytes,
    PlaceUnreachable,
    check_key,
    sha_of_key,
)
from vkbench.programs.places.requests import check_request
from vkbench.programs.signed import read_signed
from vkbench.settings import Settings
from vkbench_scheduler.metrics.fleet import parse

SILENCE_SECONDS: Final = 30.0  # after which who asks is not waited for any more
MOST_REQUESTS: Final = 32  # at a time; others are refused
SPARE_BYTES: Final = 1 << 30  # of disk that stay free, whatever is brought
_RANGE: Final = re.compile(r"bytes=([0-9]{1,15})-")

_log = logging.getLogger(__name__)


def serve(place: str, settings: Settings) -> BuildServer:
    """Serve builds at `[HOST:]PORT` from a thread; OSError if it cannot listen there."""
    keys = keys_for(settings)
    if not keys.worker:
        raise UsageError("--builds answers signed requests: `vkbench key new` makes keys for them")
    server = BuildServer(parse(place), open_folder(settings), keys)
    threading.Thread(target=server.serve_forever, name="builds", daemon=True).start()
    return server


class BuildServer(ThreadingHTTPServer):
    """Answers so many requests at a time, each in a thread."""

    daemon_threads = True
    request_queue_size = MOST_REQUESTS

    def __init__(self, place: tuple[str, int], folder: FolderPlace, keys: Keys) -> None:
        self.folder, self.keys = folder, keys
        self._free = threading.BoundedSemaphore(MOST_REQUESTS)
        super().__init__(place, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a thread of its own, or close it where there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one request, and make room for another."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Note that a request broke off; the client sees that its connection is closed."""
        log.warn(_log, "builds_request_failed", client=client_address[0])


class _Refused(Exception):
    """A request gets this status, and no more."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server_version, sys_version = "vkbench", ""
    timeout = SILENCE_SECONDS

    @property
    def _builds(self) -> BuildServer:
        assert isinstance(self.server, BuildServer)
        return self.server

    def do_GET(self) -> None:
        self._answer(self._send_file)

    def do_HEAD(self) -> None:
        self._answer(self._send_headers)

    def do_PUT(self) -> None:
        self._answer(self._take_file)

    def _answer(self, do: Callable[[str, str], object]) -> None:
        try:
            key = check_key(self.path.removeprefix("/"))
            signed = self.headers.get("Authorization", "")
            do(key, check_request(self.command, key, signed, self._builds.keys))
        except NotThere as error:
            self._refuse(404, str(error))
        except UsageError:
            self._refuse(404, "there is nothing")
        except _Refused as error:
            self._refuse(error.status, str(error))
        except PlaceUnreachable as error:
            log.warn(_log, "builds_unavailable", error=error)
            self._refuse(503, "the folder of builds cannot be used")
        except VkbenchError as error:
            log.warn(_log, "builds_request_refused", client=self.client_address[0], error=error)
            self._refuse(403, str(error))

    def _refuse(self, status: int, reason: str) -> None:
        words = f"{reason}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(words)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(words)

    def _send_headers(self, key: str, _: str = "") -> int:
        """Say how long a file is; returns where to begin."""
        size = self._builds.folder.size_of(key)
        if size is None or (self.command == "HEAD" and self._is_damaged(key, size)):
            raise NotThere(f"no {key}")
        header = self.headers.get("Range", "")
        match = _RANGE.fullmatch(header)
        start = int(match[1]) if match else 0
        if (header and not match) or start > size:
            raise _Refused(416, f"{header!r} is no range of {size} bytes")
        self.send_response(206 if match else 200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(size - start))
        if match:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        self.end_headers()
        return start

    def _is_damaged(self, key: str, size: int) -> bool:
        """Whether a file is not what it was, so that who asks whether it is there sends it anew."""
        if not key.startswith("files/") or self._builds.folder.has(key, size):
            return False
        log.warn(_log, "build_file_damaged", key=key)
        return True

    def _send_file(self, key: str, _: str) -> None:
        start = self._send_headers(key)
        with self._builds.folder.read(key, start) as pieces:
            for piece in pieces:
                self.wfile.write(piece)

    def _take_file(self, key: str, sha: str) -> None:
        most = MOST_BYTES if key.startswith("files/") else MOST_SIGNED_BYTES
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or len(length) > 15 or int(length) > most:
            raise _Refused(413, f"a file has to say its size, and may have {most} bytes")
        if key.startswith("files/") and sha != sha_of_key(key):
            raise _Refused(422, "the request is signed for another file")
        with suppress(FileNotFoundError):
            if shutil.disk_usage(self._builds.folder.folder).free < int(length) + SPARE_BYTES:
                raise _Refused(507, "the disk of builds is full")
        try:
            self._keep(key, CheckedFile(self.rfile, int(length), sha))
        except (OtherBytes, NoBuild) as error:
            raise _Refused(422, str(error)) from error
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()
        log.event(_log, "build_file_kept", key=key, bytes=int(length))

    def _keep(self, key: str, file: CheckedFile) -> None:
        """Keep a file; of what is signed of a build, only what is that build's."""
        folder = self._builds.folder
        if key.startswith("files/"):
            folder.write(key, file)
            return
        data = b"".join(iter(file.read, b""))
        read_signed(data, sha_of_key(key))
        folder.write(key, CheckedFile(io.BytesIO(data), len(data), file.sha))

    def log_message(self, format: str, *args: Any) -> None:
        """Log no line a request."""
