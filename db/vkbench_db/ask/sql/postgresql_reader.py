"""Runs one statement on PostgreSQL, in a process whose memory is bounded: an answer may be large.

`readonly` starts this module for each query, and speaks with it as with `reader`. It imports little
beside psycopg, because it starts each time.

A statement of a stranger is checked first. What a plan says is too late (planning already runs
functions) and too little (query_to_xml('SELECT ...') is one function of no relation). So the
statement is made a temporary view in a transaction that is rolled back: that resolves every name
and runs nothing. The stored rule then lists each relation and each function by number.

The server's own memory is bounded by its settings as far as they go (work_mem, temp_file_limit),
and beyond that by the kernel alone: docs/compose.md.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
from psycopg import errors

from vkbench_db.ask.sql import reader

Connection = psycopg.Connection[tuple[Any, ...]]

_PUBLIC_ROWS = 20  # fetched at once: they are in the memory of this process four times
# A hash table may have as much as a sort, and one process computes.
_SMALL = ("work_mem=16MB", "hash_mem_multiplier=1", "max_parallel_workers_per_gather=0", "jit=off")
_LIMITS = (errors.ConfigurationLimitExceeded, errors.OutOfMemory, errors.ProgramLimitExceeded)

# Functions that are not immutable, but read nothing beyond the clock and the time zone.
_STABLE = (
    *("now", "transaction_timestamp", "statement_timestamp", "age", "date_trunc", "date_part"),
    *("extract", "timezone", "to_char", "to_timestamp", "to_date", "to_number", "date"),
    *("timestamp", "timestamptz", "time", "timetz", "generate_series", "concat", "concat_ws"),
    *("format", "array_to_string", "to_json", "to_jsonb", "row_to_json", "array_to_json"),
    *("json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg", "json_build_object"),
    *("json_build_array", "jsonb_build_object", "jsonb_build_array"),
)
_OF_OPERATORS = "SELECT oprcode::oid FROM pg_operator WHERE oid = ANY(%s)"
_UNWANTED = """
SELECT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE p.oid = ANY(%s) AND NOT (
  n.nspname = 'pg_catalog' AND p.oid < 16384
  AND (p.provolatile = 'i' OR p.provolatile = 's' AND (p.proname = ANY(%s) OR p.oid = ANY(%s)))
) ORDER BY p.proname"""
_FUNCTION = re.compile(r":(?:funcid|aggfnoid|winfnoid|opfuncid) (\d+)")
_OPERATOR = re.compile(r":opno (\d+)")
_RELATION = re.compile(r":relid (\d+)")
_ROLE = (
    "SELECT rolsuper, current_setting('temp_file_limit') FROM pg_roles WHERE rolname = current_user"
)
_ADVICE = "`vkbench db reader-role` makes one to name in VKBENCH_QUERY_DATABASE"


class Unfit(Exception):
    """The statement reads more than it may, or the role that runs it is bounded by nothing."""


def main() -> None:
    """Read a request, and write the answer."""
    request = json.loads(sys.stdin.buffer.readline())
    reader.limit(request | {"seconds": request["seconds"] + request["connect_seconds"]})
    try:
        with closing(_connect(request)) as connection:  # rolls back: nothing commits
            for page in _pages(connection, request):
                reader.say(page)
        reader.say(reader.END)
    except MemoryError:
        _say_error(reader.REFUSED, reader.NO_MEMORY)
    except Unfit as error:
        _say_error(reader.REFUSED, str(error))
    except psycopg.Error as error:
        _say_error(_kind_of(error), str(error).strip().partition("\n")[0])


def _kind_of(error: psycopg.Error) -> str:
    if isinstance(error, errors.QueryCanceled):
        return reader.LATE
    if isinstance(error, errors.SyntaxError):
        return reader.SYNTAX
    # libpq's own, of a row that does not fit into this process, has no state of the server
    is_ours = error.sqlstate is None and "out of memory" in str(error)
    if isinstance(error, psycopg.OperationalError) and not (is_ours or isinstance(error, _LIMITS)):
        return reader.UNREACHABLE
    return reader.REFUSED


def _say_error(kind: str, reason: str) -> None:
    reader.say({reader.ERROR: reason, reader.KIND: kind})


def _connect(request: dict[str, Any]) -> Connection:
    settings = [f"statement_timeout={int(request['seconds'] * 1000)}", "timezone=UTC"]
    settings += _SMALL if request["views"] else ()
    return psycopg.connect(
        request["url"],
        options=" ".join(f"-c {setting}" for setting in settings),
        client_encoding="utf8",
        connect_timeout=request["connect_seconds"],
    )


def _pages(connection: Connection, request: dict[str, Any]) -> Iterator[list[Any]]:
    """The columns, and then the rows, some at a time."""
    if request["views"]:
        _check_role(connection)
        _check_statement(connection, request["sql"], request["views"])
    _restrict(connection)
    _declare(connection, request["sql"])
    columns: list[str] = []
    rows_at_once = _PUBLIC_ROWS if request["views"] else reader.PAGE_ROWS
    while True:
        cursor = connection.execute(b"FETCH FORWARD %d FROM vkbench_query" % rows_at_once)
        if not columns:
            columns = [column.name for column in cursor.description or ()]
            yield columns
        rows = cursor.fetchall()
        if not rows:
            return
        yield [[_cell(cell) for cell in row] for row in rows]


def _cell(value: Any) -> Any:
    """What JSON says by itself, bytes as `reader.say` has them, and the rest as a text."""
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    if isinstance(value, list | dict):
        return {reader.NESTED: json.dumps(value, default=str)}
    return str(value)


def _check_role(connection: Connection) -> None:
    """Unfit if nothing but the statement's time bounds what the role takes of the server."""
    connection.read_only = False  # also for a role that only reads: a temporary view is written
    is_superuser, most_files = connection.execute(_ROLE).fetchone() or (True, "-1")
    if is_superuser:
        raise Unfit(f"the pages would read the database as a superuser: {_ADVICE}")
    if most_files == "-1":
        raise Unfit(f"the role of the pages has no temp_file_limit: {_ADVICE}")


def _check_statement(connection: Connection, sql: str, names: list[str]) -> None:
    """Unfit for a statement that reads more than the views, or calls what does more than count."""
    view_rows = connection.execute(
        "SELECT oid FROM pg_class WHERE oid = ANY(%s::regclass[])", [names]
    )
    views = {oid for (oid,) in view_rows}
    # on lines of its own, so that a comment at its end stays one
    made = f"CREATE TEMP VIEW vkbench_asked AS\n{sql}\n"
    result = connection.pgconn.exec_params(made.encode(), None)  # takes one statement only
    if result.status != psycopg.pq.ExecStatus.COMMAND_OK:
        raise errors.error_from_result(result)
    rule = connection.execute(
        "SELECT ev_class, ev_action::text FROM pg_rewrite"
        " WHERE ev_class = 'pg_temp.vkbench_asked'::regclass"
    ).fetchone()
    assert rule
    own, action = rule
    if not _numbers(_RELATION, action) <= views | {own, 0}:
        raise Unfit(f"only the views {', '.join(names)} can be queried here")
    operators = [
        oid for (oid,) in connection.execute(_OF_OPERATORS, [list(_numbers(_OPERATOR, action))])
    ]
    functions = [*_numbers(_FUNCTION, action), *operators]
    bad = connection.execute(_UNWANTED, [functions, list(_STABLE), operators]).fetchall()
    if bad:
        raise Unfit(f"function {bad[0][0]} cannot be used here")
    connection.rollback()


def _numbers(pattern: re.Pattern[str], action: str) -> set[int]:
    return {int(number) for number in pattern.findall(action)}


def _restrict(connection: Connection) -> None:
    """Begin a transaction that reads, as pg_read_all_data where the session is a superuser's."""
    connection.read_only = True
    superuser = connection.execute("SELECT usesuper FROM pg_user WHERE usename = current_user")
    if superuser.fetchone() == (True,):
        connection.execute("SET LOCAL ROLE pg_read_all_data")


def _declare(connection: Connection, sql: str) -> None:
    """Declare the statement as a cursor; straight through libpq, whose form takes one only."""
    # on a line of its own, so that a comment at its end stays one
    declared = f"DECLARE vkbench_query NO SCROLL CURSOR FOR\n{sql}"
    result = connection.pgconn.exec_params(declared.encode(), None)
    if result.status != psycopg.pq.ExecStatus.COMMAND_OK:
        raise errors.error_from_result(result)


if __name__ == "__main__":
    main()
