"""`vkbench query`: SQL that can only read."""

from __future__ import annotations

import sys
from typing import Annotated

from typer import Argument, Option

from vkbench_cli.options import Store
from vkbench_cli.show.printing import Cell, Column, Output, Table, ValueKind, show
from vkbench_cli.store import NOTHING_YET, is_unmade


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
    from vkbench_db.ask import readonly

    text = sys.stdin.read() if sql == "-" else sql
    ours = store.settings()
    if is_unmade(ours):
        names, rows = readonly.query_blank(text, limit=limit)
        print(NOTHING_YET, file=sys.stderr)
    else:
        names, rows = readonly.query(ours.database_url(), text, limit=limit)
    keys = _distinct(names)
    found = [dict(zip(keys, map(_cell, row), strict=True)) for row in rows]
    show(Table(columns=[_column(key, found) for key in keys], rows=found), output)


def _column(key: str, rows: list[dict[str, Cell]]) -> Column:
    numbers = [row[key] for row in rows if row[key] is not None]
    plain = numbers and all(type(value) in (int, float) for value in numbers)
    return Column(key=key, heading=key, kind=ValueKind.VALUE if plain else ValueKind.TEXT)


def _distinct(names: list[str]) -> list[str]:
    """Column names, with a number after one that was there before."""
    keys: list[str] = []
    for name in names:
        same = sum(key == name or key.startswith(f"{name}_") for key in keys)
        keys.append(f"{name}_{same + 1}" if name in keys else name)
    return keys


def _cell(value: object) -> Cell:
    """What JSON has no word for, as text."""
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    if value is None or isinstance(value, (str, int, float, list, dict)):
        return value
    return str(value)
