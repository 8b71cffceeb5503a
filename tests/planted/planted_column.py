"""What a copy makes of a column that was planted in its results; prints it as JSON.

    PYTHONPATH=COPY python planted_column.py COLUMN VALUE HOME ELSEWHERE

HOME and ELSEWHERE are URLs of databases that do not exist yet: HOME gets a run with a result,
ELSEWHERE that run by export and import.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace

from sqlalchemy import select

from planted_runs import DEVICE, ENVIRONMENT, do_run, done
from vkbench.messages.wire import Announcement
from vkbench.result import Result, Timing
from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_db.transfer.exchange import export_run, import_lines
from vkbench_db.work import store


def main(column: str, value: float, home: str, elsewhere: str) -> None:
    with Database.open(home, create=True) as database:
        announced = Announcement(worker="w", facts=DEVICE, environment=ENVIRONMENT, bundle="")
        with database.transaction() as tx:
            store.register_device(tx, announced, time.time())
        run = do_run(database, [planted(column, value)] * 3, label="planted")
        with database.reading() as tx:
            lines = list(export_run(tx, run))
        kept = read(database, column)
    with Database.open(elsewhere, create=True) as database:
        with database.transaction() as tx:
            import_lines(tx, lines, time.time())
        brought = read(database, column)
    found = {"home": kept, "elsewhere": brought, "view": sorted(schema.v_results.c.keys())}
    print(json.dumps(found))


def planted(column: str, value: float) -> Result:
    result = done(1e-3)
    return replace(result, timings=tuple(_with(timing, column, value) for timing in result.timings))


def _with(timing: Timing, column: str, value: float) -> Timing:
    return Timing(**vars(timing) | {column: value})


def read(database: Database, column: str) -> list[float]:
    """The different values of a column in the table and in both views."""
    tables = (schema.measurement, schema.v_results, schema.v_latest)
    with database.reading() as tx:
        return sorted(
            {each for table in tables for each in tx.execute(select(table.c[column])).scalars()}
        )


main(sys.argv[1], float(sys.argv[2]), sys.argv[3], sys.argv[4])
