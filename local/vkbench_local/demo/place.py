"""Chooses the demonstration's SQLite file, never one that has other results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from vkbench.errors import UsageError
from vkbench_db.database import Database, upgrade
from vkbench_db.demonstration import is_file_of_one

Fill = Callable[[Database], None]


def make(path: Path, fill: Fill, *, anew: bool = False) -> bool:
    """Have the demonstration filled into a file; False if it is there already.

    It is made beside that file and renamed at the end, so that none is there in part.
    """
    if path.exists():
        _refuse_others(path)
        if not anew:
            upgrade(f"sqlite:///{path}")
            return False
    part = path.with_name(f"{path.name}.part")
    _remove(part)
    try:
        with Database.open(f"sqlite:///{part}", create=True) as database:
            fill(database)
        _remove(path)
        part.rename(path)
    finally:
        _remove(part)
    return True


def _refuse_others(path: Path) -> None:
    if not is_file_of_one(path):
        raise UsageError(
            f"{path} is no demonstration: `vkbench demo` puts made-up results into a file of "
            "their own (--database FILE)"
        )


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
