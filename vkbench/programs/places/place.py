"""What a place of builds can do, under which keys it keeps what, and how it can fail."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Final, Protocol

from vkbench.errors import ServiceUnreachable, UsageError, VkbenchError

MOST_SIGNED_BYTES: Final = 1 << 20  # of what is signed of a build: names, hashes and sizes of files
PIECE_BYTES: Final = 1 << 20
_KEY: Final = re.compile(r"files/[0-9a-f]{64}|signed/[0-9a-f]{64}\.json")


class PlaceUnreachable(ServiceUnreachable):
    """The place where builds lie does not answer, or not to the end."""


class NotThere(UsageError):
    """The place of builds does not have it."""


class Place(Protocol):
    """Keeps files under keys that name their hashes."""

    @property
    def name(self) -> str:
        """Where it is, without passwords."""

    def has(self, key: str, nbytes: int) -> bool:
        """Whether a file of so many bytes lies there; folders and servers also hash it."""

    def read(self, key: str, start: int = 0) -> AbstractContextManager[Iterator[bytes]]:
        """What lies under a key from a byte on, in pieces; NotThere if nothing does."""

    def write(self, key: str, file: CheckedFile) -> None:
        """Put a file under a key, whole or not at all; one that is there is replaced."""


class OtherBytes(VkbenchError):
    """A file is not what its hash says."""


class Readable(Protocol):
    """What bytes are read from."""

    def read(self, most: int, /) -> bytes:
        """The next bytes, at most so many."""


class CheckedFile:
    """Reads so many bytes of a file; OtherBytes at their end where their hash is another."""

    def __init__(self, file: Readable, nbytes: int, sha: str) -> None:
        self._file, self._left, self._digest = file, nbytes, hashlib.sha256()
        self.nbytes, self.sha = nbytes, sha

    def read(self, most: int = -1) -> bytes:
        """The next bytes, at most so many; b"" at the end."""
        piece = self._file.read(min(most if most >= 0 else PIECE_BYTES, PIECE_BYTES, self._left))
        self._left -= len(piece)
        self._digest.update(piece)
        if not self._left and self._digest.hexdigest() != self.sha:
            raise OtherBytes(f"its bytes have the hash {self._digest.hexdigest()[:12]}")
        if not piece and self._left:
            raise OtherBytes(f"{self._left} of its {self.nbytes} bytes are missing")
        return piece


def key_of_file(sha: str) -> str:
    """Where a file lies that has this SHA-256."""
    return check_key(f"files/{sha}")


def key_of_signed(sha: str) -> str:
    """Where it lies who signed the build of this hash."""
    return check_key(f"signed/{sha}.json")


def check_key(key: str) -> str:
    """The key, if it is one; UsageError for anything else, as what leads out of a place."""
    if not _KEY.fullmatch(key):
        raise UsageError(f"{key[:100]!r} is no key of a place of builds")
    return key


def sha_of_key(key: str) -> str:
    """The hash that a key names: of a file, or of a build."""
    return check_key(key).partition("/")[2].removesuffix(".json")
