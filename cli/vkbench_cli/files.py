"""Output files, written completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from vkbench.errors import UsageError, VkbenchError


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that gets its name when the block succeeds; after an error nothing is left.

    VkbenchError names the file where the disk takes no more of it.
    """
    check_writable(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        if error.filename:  # of opening some file; an error of writing has no name
            raise
        raise VkbenchError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """UsageError before the work starts if the file cannot be written."""
    if path.is_dir():
        raise UsageError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"cannot write {path}: the folder {path.parent} is read-only")


def check_readable(path: Path) -> None:
    """UsageError with the reason if a file cannot be read."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
