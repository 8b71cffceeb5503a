"""Opens files that people name, and refuses pipes; writes files whole."""

from __future__ import annotations

import io
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from vkbench.errors import UsageError


def open_plain(path: Path) -> BinaryIO:
    """A file with a size, to be read; UsageError at once for a pipe, or what cannot be read."""
    try:
        file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115  # the caller closes it
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise UsageError(f"{path} is no file with a size, such as a pipe: copy it to one")
    return file


@contextmanager
def open_bytes(data: bytes) -> Iterator[io.BytesIO]:
    """Bytes in the place of a file, to be read."""
    yield io.BytesIO(data)


def _open_at_once(path: str, flags: int) -> int:
    """Open a file; if it is a pipe, without waiting for a program that writes to it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file whole or not at all; its user alone reads it, if the mode says nothing else."""
    scratch = path.with_name(f".new-{secrets.token_hex(8)}")
    try:
        # not by tempfile: a contained process cannot change the modes of files that are its owner's
        with open(scratch, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(data)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
