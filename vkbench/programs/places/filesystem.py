"""Builds in a store that `fsspec` knows: S3 and what speaks like it, and some forty others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vkbench.errors import UsageError
from vkbench.messages.urls import hide_password
from vkbench.programs.places.place import (
    PIECE_BYTES,
    CheckedFile,
    NotThere,
    OtherBytes,
    PlaceUnreachable,
    check_key,
)

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


class FilesystemPlace:
    """A folder of a file system of fsspec, which reads its passwords as that system does."""

    def __init__(self, url: str) -> None:
        self.name = hide_password(url)
        self._files, self._folder = _open_filesystem(url, self.name)

    def has(self, key: str, nbytes: int) -> bool:
        with self._report_trouble(key):
            try:
                return int(self._files.size(self._place(key))) == nbytes
            except FileNotFoundError:
                return False

    @contextmanager
    def read(self, key: str, start: int = 0) -> Iterator[Iterator[bytes]]:
        with self._report_trouble(key):
            file = self._files.open(self._place(key), "rb", block_size=PIECE_BYTES)
            file.seek(start)
        with file:
            yield self._pieces_of(file, key)

    def write(self, key: str, file: CheckedFile) -> None:
        place = self._place(key)
        with self._report_trouble(key):
            self._files.makedirs(place.rpartition("/")[0], exist_ok=True)
            try:
                with self._files.open(place, "wb") as kept:
                    while piece := file.read(PIECE_BYTES):
                        kept.write(piece)
            except OtherBytes:
                self._files.rm(place)
                raise

    def _pieces_of(self, file: object, key: str) -> Iterator[bytes]:
        while True:
            with self._report_trouble(key):
                piece: bytes = file.read(PIECE_BYTES)  # type: ignore[attr-defined]
            if not piece:
                return
            yield piece

    def _place(self, key: str) -> str:
        return f"{self._folder.rstrip('/')}/{check_key(key)}"

    @contextmanager
    def _report_trouble(self, key: str) -> Iterator[None]:
        """Say what went wrong in one line: each file system has errors of its own."""
        try:
            yield
        except FileNotFoundError as error:
            raise NotThere(f"{self.name} has no {key}") from error
        except OtherBytes:
            raise
        except Exception as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise PlaceUnreachable(f"{self.name} cannot be used: {reason}") from error


def _open_filesystem(url: str, name: str) -> tuple[AbstractFileSystem, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise UsageError(
            f"{name} (VKBENCH_STORE) is read by fsspec: `pip install 'vkbench[stores]'`, and what "
            "fsspec needs for it, such as s3fs"
        ) from error
    try:
        files, folder = url_to_fs(url, use_listings_cache=False)
    except (ImportError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"{name} (VKBENCH_STORE) cannot be used: {reason}") from error
    return files, str(folder)
