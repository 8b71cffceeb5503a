"""Runs written to files that another database can read, and read back."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from vkbench_cli.files import check_readable, whole_file
from vkbench_cli.show.progress import CountedProgress
from vkbench_db.ask import queries
from vkbench_db.database import Database
from vkbench_db.transfer import exchange

BLOCK_BYTES = 1 << 20  # read at once to count lines


def export_run(database: Database, run: int, path: Path) -> None:
    """Write a run with its results, completely or not at all."""
    with whole_file(path) as file, database.reading() as tx:
        total = queries.find_run(tx, str(run)).progress.total
        with CountedProgress(f"export of run {run}", total) as progress:
            for line in progress.over(exchange.export_run(tx, run)):
                file.write(line.encode())


def import_file(database: Database, path: Path) -> exchange.Imported:
    """Read what `export_run` wrote, whole or not at all; what is known already stays as it is."""
    with (
        CountedProgress(f"lines of {path.name}", _count_lines(path)) as progress,
        path.open(encoding="utf-8", errors="replace") as file,
        database.transaction() as tx,
    ):
        lines = progress.over(exchange.lines_of(file))
        return exchange.import_lines(tx, lines, time.time())


def _count_lines(path: Path) -> int:
    check_readable(path)
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(partial(file.read, BLOCK_BYTES), b""))
