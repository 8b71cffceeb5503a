"""Files of exports, compressed if their name says so."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, Literal, cast

BROKEN: Final = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)  # of files that are cut


@contextmanager
def open_by_name(raw: IO[bytes], path: Path, mode: Literal["rb", "wb"]) -> Iterator[IO[bytes]]:
    """Open a file for bytes, which are compressed if its name ends with .gz or .xz."""
    match path.suffix:
        case ".gz":
            with gzip.GzipFile(fileobj=raw, mode=mode, filename="", mtime=0) as file:
                yield cast(IO[bytes], file)
        case ".xz":
            with lzma.open(raw, mode, preset=9 if mode == "wb" else None) as file:
                yield cast(IO[bytes], file)
        case _:
            yield raw
