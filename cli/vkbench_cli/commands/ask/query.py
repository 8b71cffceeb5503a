"""`vkbench query`: SQL that can only read."""

from __future__ import annotations

import sys
from typing import Annotated

from typer import Argument, Option

from vkbench_cli.options.records import Store
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import Elapsed, tell
from vkbench_cli.store import NOTHING_YET, READING, is_unmade
from vkbench_tables.queried import answer


def query(
    *,
    sql: Annotated[
        str, Argument(metavar="SQL", help="One SELECT statement; '-' reads it from stdin.")
    ],
    limit: Annotated[
        int, Option(metavar="N", min=1, help="Fail if there are more than N rows.")
    ] = 100_000,
    store: Store,
    output: Output,
) -> None:
    """Query the database in SQL, read-only.

    Query the views v_results and v_latest: they have one row per metric of each finished job.

    \b
    vkbench query "SELECT kernel, count(*) FROM v_latest GROUP BY kernel"
    """
    from vkbench_db.ask.sql import readonly

    text = sys.stdin.read() if sql == "-" else sql
    settings = store.settings()
    bounds = readonly.Bounds(rows=limit)
    if is_unmade(settings):
        names, rows = readonly.query_blank(text, bounds)
        tell(NOTHING_YET)
    else:
        with Elapsed(READING):
            names, rows = readonly.query(settings.database_url(), text, bounds)
    show(answer(names, rows), output)
