"""Bundles that came through Redis: the store keeps those that were used last.

Each has an empty file beside its manifest, whose date is that of its last use. Bundles that people
built on this host have none, and stay.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MARK = "fetched"
REST_SECONDS = 3600.0  # another worker of this host may be about to use one


def note(folder: Path, sha: str, *, is_new: bool = False) -> None:
    """Note that a bundle of the folder is used now; a new one is one that was fetched."""
    mark = folder / sha / MARK
    with suppress(OSError):  # a full disk: its age stays
        if is_new:
            mark.touch(0o600)
        elif mark.exists():
            os.utime(mark)


def evict(folder: Path, most: int) -> list[str]:
    """Remove fetched bundles, the longest unused first, until they have `most` bytes at most."""
    bundles = sorted(_list_fetched(folder))
    evicted, total = [], sum(size for _, _, size in bundles)
    for used, bundle, size in bundles:
        if total <= most or time.time() - used < REST_SECONDS:
            break
        going = folder / f".old-{bundle.name}"
        shutil.rmtree(going, ignore_errors=True)  # a process was killed while it removed that
        with suppress(FileNotFoundError):  # another worker was first
            bundle.rename(going)  # at once: others see it whole or not
            evicted.append(bundle.name)
        shutil.rmtree(going, ignore_errors=True)
        total -= size
    return evicted


def _list_fetched(folder: Path) -> Iterator[tuple[float, Path, int]]:
    """When each fetched bundle was used, where it is, and its bytes."""
    for mark in folder.glob(f"[!.]*/{MARK}"):
        with suppress(FileNotFoundError):  # another worker removes it
            size = sum(file.stat().st_size for file in mark.parent.iterdir())
            yield mark.stat().st_mtime, mark.parent, size
