"""The rows of an accuracy run: what formats and models lost. Such a run has no jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from sqlalchemy import Connection

from vkbench.accuracy import Accuracy
from vkbench_db import schema
from vkbench_db.rows import insert_missing


def add_accuracies(tx: Connection, run: int, accuracies: Mapping[int, Accuracy]) -> None:
    """Store rows of a run by their position; those that are there already stay as they are."""
    rows = [{"run_id": run, "position": at, **asdict(row)} for at, row in accuracies.items()]
    insert_missing(tx, schema.accuracy, rows)
