"""Runs written to files that another database can read, and read back."""

from __future__ import annotations

import time
from pathlib import Path

from vkbench_cli.files import check_readable, whole_file
from vkbench_cli.show.progress import CountedProgress
from vkbench_db.ask import queries
from vkbench_db.database import Database
from vkbench_db.transfer import exchange


def export_run(database: Database, run: int, path: Path) -> None:
    """Write a run with its results, completely or not at all."""
    with whole_file(path) as file, database.reading() as tx:
        total = queries.find_run(tx, str(run)).progress.total
        with CountedProgress(f"export of run {run}", total) as progress:
            for line in progress.over(exchange.export_run(tx, run)):
                file.write(line.encode())


def import_file(database: Database, path: Path) -> exchange.Imported:
    """Read what `export_run` wrote, whole or not at all; what is known already stays as it is."""
    check_readable(path)
    with path.open(encoding="utf-8", errors="replace") as file, database.transaction() as tx:
        return exchange.import_lines(tx, exchange.lines_of(file), time.time())
