"""What strangers may ask: the documented views, by functions that only calculate.

`readonly` keeps statements of people who may read the database from writing. A page is open to
everybody on the network, so its statements may not read tokens, files of the server or other
databases either, and may not take locks or run SQL that hides in a string.

SQLite asks an authorizer about each column while it compiles a statement. The name of the view
that a column is read for is no proof, for a common table expression may have the name of a view:
what counts is that the views read this column of this table themselves (`reader.guard`).

PostgreSQL: what a plan says is too late (planning already runs functions) and too little
(query_to_xml('SELECT ...') is one function of no relation). So the statement is made a temporary
view in a transaction that is rolled back: that resolves every name and runs nothing. The stored
rule then lists each relation and each function by number.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vkbench_db import schema
from vkbench_db.errors import QueryRefused

if TYPE_CHECKING:
    import psycopg

MOST_ROWS = 10_000
MOST_SECONDS = 10.0
MOST_BYTES = 2**20  # of one value
VIEWS = tuple(sorted(schema.VIEWS.tables))
ONLY_VIEWS = f"only the views {', '.join(VIEWS)} can be queried here"

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
_SUPERUSER = (
    "the query was refused: the pages read the database as a superuser. Give them a role that only "
    "reads, or set VKBENCH_QUERY_AS_SUPERUSER=1"
)


def check_postgresql(
    connection: psycopg.Connection[tuple[Any, ...]], sql: str, *, as_superuser: bool
) -> None:
    """QueryRefused for a statement that reads more than the views."""
    import psycopg

    connection.read_only = False  # also for a role that only reads: a temporary view is written
    role = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
    if role.fetchone() == (True,) and not as_superuser:
        raise QueryRefused(_SUPERUSER)
    found = connection.execute(
        "SELECT oid FROM pg_class WHERE oid = ANY(%s::regclass[])", [list(VIEWS)]
    )
    views = {oid for (oid,) in found}
    # on lines of its own, so that a comment at its end stays one
    made = f"CREATE TEMP VIEW vkbench_asked AS\n{sql}\n"
    result = connection.pgconn.exec_params(made.encode(), None)  # takes one statement only
    if result.status != psycopg.pq.ExecStatus.COMMAND_OK:
        raise psycopg.errors.error_from_result(result)
    rule = connection.execute(
        "SELECT ev_class, ev_action::text FROM pg_rewrite"
        " WHERE ev_class = 'pg_temp.vkbench_asked'::regclass"
    ).fetchone()
    assert rule
    own, action = rule
    if not _numbers(_RELATION, action) <= views | {own, 0}:
        raise QueryRefused(f"the query was refused: {ONLY_VIEWS}")
    operators = [
        oid for (oid,) in connection.execute(_OF_OPERATORS, [list(_numbers(_OPERATOR, action))])
    ]
    functions = [*_numbers(_FUNCTION, action), *operators]
    bad = connection.execute(_UNWANTED, [functions, list(_STABLE), operators]).fetchall()
    if bad:
        raise QueryRefused(f"the query was refused: function {bad[0][0]} cannot be used here")
    connection.rollback()


def _numbers(pattern: re.Pattern[str], action: str) -> set[int]:
    return {int(number) for number in pattern.findall(action)}
