"""A folder as the place of builds: of this machine, or one that hosts share."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkstemp

from vkbench.programs.places.place import (
    PIECE_BYTES,
    CheckedFile,
    NotThere,
    PlaceUnreachable,
    check_key,
    sha_of_key,
)


class FolderPlace:
    """A folder that keeps files by their hashes, as a `BuildStore` does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def name(self) -> str:
        return str(self.folder)

    def size_of(self, key: str) -> int | None:
        """The bytes under a key; None if there is nothing."""
        try:
            return (self.folder / check_key(key)).stat().st_size
        except FileNotFoundError:
            return None
        except OSError as error:
            raise PlaceUnreachable(f"cannot look into {self.folder}: {error.strerror}") from error

    def has(self, key: str, nbytes: int) -> bool:
        return self.size_of(key) == nbytes and self._hash_of(key) == sha_of_key(key)

    def _hash_of(self, key: str) -> str:
        digest = hashlib.sha256()
        with self.read(key) as pieces:
            for piece in pieces:
                digest.update(piece)
        return digest.hexdigest()

    @contextmanager
    def read(self, key: str, start: int = 0) -> Iterator[Iterator[bytes]]:
        try:
            file = (self.folder / check_key(key)).open("rb")
        except FileNotFoundError as error:
            raise NotThere(f"{self.folder} has no {key}") from error
        except OSError as error:
            raise PlaceUnreachable(f"cannot read {self.folder}: {error.strerror}") from error
        with file:
            file.seek(start)
            yield iter(lambda: file.read(PIECE_BYTES), b"")

    def write(self, key: str, file: CheckedFile) -> None:
        kept = self.folder / check_key(key)
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            handle, name = mkstemp(prefix=".new-", dir=kept.parent)
            try:
                with os.fdopen(handle, "wb") as made:
                    shutil.copyfileobj(file, made, PIECE_BYTES)
                os.chmod(name, 0o555 if key.startswith("files/") else 0o644)
                os.replace(name, kept)
            finally:
                Path(name).unlink(missing_ok=True)
        except OSError as error:
            raise PlaceUnreachable(f"cannot write {self.folder}: {error.strerror}") from error
