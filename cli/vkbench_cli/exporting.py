"""Runs written to files that another database can read."""

from __future__ import annotations

from pathlib import Path

from vkbench_cli.files import whole_file
from vkbench_db import exchange
from vkbench_db.database import Database


def export_run(database: Database, run: int, path: Path) -> int:
    """Write a run with its results, whole or not at all; says how many lines."""
    count = 0
    with database.reading() as tx, whole_file(path) as file:
        for line in exchange.export_run(tx, run):
            file.write(line.encode() + b"\n")
            count += 1
    return count
