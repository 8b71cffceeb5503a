"""Opens files that people name, and refuses pipes, which might block forever."""

from __future__ import annotations

import os
import stat
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


def _open_at_once(path: str, flags: int) -> int:
    """Open a file; if it is a pipe, without waiting for a program that writes to it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
