"""Sends builds to the place where a lab keeps them, and gets from there what a host lacks."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from vkbench.errors import VkbenchError
from vkbench.process import system
from vkbench.programs.build import Build, BuildFile
from vkbench.programs.places.place import (
    PIECE_BYTES,
    CheckedFile,
    OtherBytes,
    Place,
    PlaceUnreachable,
    key_of_file,
    key_of_signed,
)
from vkbench.programs.store import BuildStore

TRIES: Final = 3  # to read a file on, each from where the one before was cut
PAUSE_SECONDS: Final = 0.5  # between two of them
LOOK_SECONDS: Final = 0.1  # between two looks at a file that another process gets
SPARE_BYTES: Final = 64 << 20  # that a disk keeps free beside a build


class OutOfTime(VkbenchError):
    """A build did not come to its end in time; what came stays."""


def send(build: Build, signed: bytes, store: BuildStore, place: Place) -> int:
    """Put a signed build into a place; returns the bytes of what it lacked, or had damaged."""
    sent = 0
    for file in {file.sha: file for file in build.files}.values():
        if not place.has(key_of_file(file.sha), file.nbytes):
            with store.check_file(build, file).open("rb") as content:
                checked = CheckedFile(content, file.nbytes, file.sha)
                place.write(key_of_file(file.sha), checked)
            sent += file.nbytes
    words = CheckedFile(io.BytesIO(signed), len(signed), hashlib.sha256(signed).hexdigest())
    place.write(key_of_signed(build.sha), words)
    return sent


class Fetch:
    """Gets the files of a build into a store, until it is over for who asked or out of time."""

    def __init__(
        self,
        store: BuildStore,
        place: Place,
        is_over: Callable[[], bool],
        deadline: float = float("inf"),
    ) -> None:
        self._store, self._place = store, place
        self._is_over, self._deadline = is_over, deadline  # monotonic

    def __call__(self, build: Build) -> int:
        """Get the files that are not there, and note the build; returns their bytes.

        OtherBytes, NotThere, PlaceUnreachable or OutOfTime say what keeps a file from coming; an
        OSError is of this host's disk.
        """
        lacking = {
            file.sha: file for file in build.files if not self._store.path_of(file.sha).is_file()
        }
        self._check_disk(sum(file.nbytes for file in lacking.values()))
        for file in lacking.values():
            self._get(file)
        self._store.note(build)
        return sum(file.nbytes for file in lacking.values())

    def _check_disk(self, nbytes: int) -> None:
        folder = self._store.folder
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if nbytes and free < nbytes + SPARE_BYTES:
            reason = f"the build needs {nbytes:,} bytes and {free:,} are free"
            raise OSError(errno.ENOSPC, reason, str(folder))

    def _get(self, file: BuildFile) -> None:
        """Get one file, or have another process of this host do so."""
        kept = self._store.path_of(file.sha)
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_name(f".part-{file.sha}")
        while not kept.is_file():
            with part.open("ab") as came:
                if not system.lock(came, waits=False):
                    self._check_time(file)
                    time.sleep(LOOK_SECONDS)
                    continue
                if kept.is_file() or not _is_same(came.fileno(), part):
                    continue  # another process had it in between
                self._complete(file, part)
                part.chmod(0o555)
                part.rename(kept)
        part.unlink(missing_ok=True)

    def _complete(self, file: BuildFile, part: Path) -> None:
        """Read a file on from where a part of it ends; a part of something else is dropped."""
        for attempt in range(TRIES):
            resumed = part.stat().st_size
            try:
                self._read_on(file, part)
                return
            except OtherBytes as error:
                os.truncate(part, 0)
                if not resumed:  # all of it came from there
                    raise OtherBytes(
                        f"{self._about(file)} is another file: {error}; submitting the build again "
                        "sends it anew"
                    ) from error
            except PlaceUnreachable:
                if attempt == TRIES - 1:
                    raise
                time.sleep(PAUSE_SECONDS)
        raise PlaceUnreachable(f"{self._about(file)} is cut again and again")

    def _read_on(self, file: BuildFile, part: Path) -> None:
        digest = hashlib.sha256()
        with part.open("r+b") as came:
            for piece in iter(lambda: came.read(PIECE_BYTES), b""):
                digest.update(piece)
            size = came.tell()
            if size < file.nbytes:
                with self._place.read(key_of_file(file.sha), size) as pieces:
                    for piece in pieces:
                        size += len(piece)
                        if size > file.nbytes:
                            raise OtherBytes(f"it has more than its {file.nbytes} bytes")
                        digest.update(piece)
                        came.write(piece)
                        self._check_time(file)
                if size < file.nbytes:
                    raise PlaceUnreachable(f"{self._about(file)} was cut after {size:,} bytes")
        if digest.hexdigest() != file.sha:
            raise OtherBytes(f"its bytes have the hash {digest.hexdigest()[:12]}")

    def _check_time(self, file: BuildFile) -> None:
        if self._is_over() or time.monotonic() > self._deadline:
            raise OutOfTime(f"{file.path} is still coming from {self._place.name}")

    def _about(self, file: BuildFile) -> str:
        return f"{file.path} ({file.sha[:12]}) of {self._place.name}"


def _is_same(handle: int, path: Path) -> bool:
    """Whether an open file still lies at a path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
