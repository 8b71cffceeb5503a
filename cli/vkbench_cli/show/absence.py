"""A line on stderr that says why submitted jobs wait."""

from __future__ import annotations

import time
from collections.abc import Sequence

from vkbench_cli.show.telling import tell
from vkbench_db.database import Database
from vkbench_db.upkeep.attendance import attendance
from vkbench_tables.absence import absence


def warn(
    database: Database, work: str, *, run: int | None = None, devices: Sequence[str] = ()
) -> None:
    """Print on stderr, in one line, which service has to be started before the work is done.

    The work is what a run has left, or anything on these devices (keys).
    """
    with database.reading() as tx:
        found = attendance(tx, run=run, devices=devices)
    said = absence(found, time.time())
    if said:
        tell(f"{work} waits: {said}")
