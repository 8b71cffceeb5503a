"""Run SQL that people wrote, in a way in which it cannot write.

SQLite: the file is opened read-only, an authorizer lets through nothing but SELECT, and only one
statement is prepared. PostgreSQL: a read-only transaction in which the statement is declared as a
cursor; only a SELECT, VALUES or TABLE can be one, and the extended protocol takes one statement. A
superuser's session first becomes pg_read_all_data, so that no function reads or writes files of
the server; that stops accidents, not somebody who has a superuser's password and means harm.
Everything is rolled back at the end.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL

from vkbench_db.database import CONNECT_SECONDS, parse_url, require_file
from vkbench_db.errors import DatabaseUnreachable, QueryRefused

if TYPE_CHECKING:
    import psycopg

Rows = list[tuple[Any, ...]]

MOST_ROWS = 100_000
MOST_SECONDS = 60.0
MOST_BYTES = 2**26  # of one value
_ALLOWED = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
)
_STEPS = 10_000  # virtual machine steps between two looks at the clock


def query(
    url: str, sql: str, *, limit: int = MOST_ROWS, seconds: float = MOST_SECONDS
) -> tuple[list[str], Rows]:
    """Run one reading statement; return its columns and rows.

    QueryRefused for anything else, for more than `limit` rows, and after `seconds`.
    """
    parsed = parse_url(url)
    statement = _statement(sql)
    if parsed.get_backend_name() == "sqlite":
        columns, rows = _query_sqlite(Path(str(parsed.database)), statement, limit, seconds)
    else:
        columns, rows = _query_postgresql(parsed, statement, limit, seconds)
    return columns, _few(rows, limit)


def query_blank(
    sql: str, *, limit: int = MOST_ROWS, seconds: float = MOST_SECONDS
) -> tuple[list[str], Rows]:
    """The same on a blank database, where no database has been made yet."""
    from vkbench_db.ask.blank import blank

    statement = _statement(sql)
    with blank() as database, closing(database.engine.raw_connection()) as raw:
        connection = raw.driver_connection
        assert isinstance(connection, sqlite3.Connection)
        with _sqlite_errors(Path(":memory:"), seconds):
            columns, rows = _selected(_guarded(connection, seconds), statement, limit)
            return columns, _few(rows, limit)


def _statement(sql: str) -> str:
    statement = sql.strip().rstrip(";").strip()
    if not statement:
        raise QueryRefused("the query is empty")
    if "\0" in statement:
        raise QueryRefused("the query holds a null character")
    return statement


def _few(rows: Rows, limit: int) -> Rows:
    if len(rows) > limit:
        raise QueryRefused(f"the query gives more than {limit} rows: add LIMIT to it")
    return rows


def _query_sqlite(path: Path, sql: str, limit: int, seconds: float) -> tuple[list[str], Rows]:
    require_file(path)
    with _sqlite_errors(path, seconds), closing(_open_sqlite(path)) as connection:
        return _selected(_guarded(connection, seconds), sql, limit)


def _selected(connection: sqlite3.Connection, sql: str, limit: int) -> tuple[list[str], Rows]:
    cursor = connection.execute(sql)
    if cursor.description is None:
        raise QueryRefused("the query reads nothing: only a SELECT can be run")
    return [column[0] for column in cursor.description], cursor.fetchmany(limit + 1)


def _open_sqlite(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _guarded(connection: sqlite3.Connection, seconds: float) -> sqlite3.Connection:
    """Make a connection read-only, and end its queries after some seconds."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
    connection.execute("PRAGMA query_only = ON")
    end = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
    connection.set_authorizer(_authorize)
    return connection


def _authorize(action: int, first: str | None, *_: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


@contextmanager
def _sqlite_errors(path: Path, seconds: float) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        reason = str(error)
        if "unable to open" in reason or "not a database" in reason:
            raise DatabaseUnreachable(f"the database {path} cannot be used: {reason}") from error
        raise _refused(_PLAIN.get(reason.rstrip("."), reason), seconds) from error


_READING = ("select", "with", "values", "table", "(", "--", "/*")
_WRITES = "it does more than read: only one SELECT can be run"
_PLAIN = {
    "not authorized": _WRITES,
    "authorization denied": _WRITES,
    "cannot insert multiple commands into a prepared statement": "only one statement can be run",
    "You can only execute one statement at a time": "only one statement can be run",
    "interrupted": "it took too long",
}


def _query_postgresql(url: URL, sql: str, limit: int, seconds: float) -> tuple[list[str], Rows]:
    import psycopg  # only hosts with a PostgreSQL database have it

    try:
        with closing(_connect(url, seconds)) as connection:  # rolls back: nothing commits
            _declare(connection, sql)
            cursor = connection.execute(b"FETCH FORWARD %d FROM vkbench_query" % (limit + 1))
            return [column.name for column in cursor.description or ()], cursor.fetchall()
    except psycopg.errors.QueryCanceled as error:
        raise _refused("it took too long", seconds) from error
    except psycopg.errors.SyntaxError as error:
        reads = sql.casefold().startswith(_READING)
        raise _refused(
            _PLAIN.get(_first(error), _first(error)) if reads else _WRITES, seconds
        ) from error
    except psycopg.OperationalError as error:
        place = url.set(query={}).render_as_string(hide_password=True)
        raise DatabaseUnreachable(
            f"the database {place} cannot be used: {_first(error)}"
        ) from error
    except psycopg.Error as error:
        raise _refused(_first(error), seconds) from error


def _connect(url: URL, seconds: float) -> psycopg.Connection[tuple[Any, ...]]:
    import psycopg

    limits = f"-c statement_timeout={int(seconds * 1000)} -c timezone=UTC"
    connection = psycopg.connect(
        url.set(drivername="postgresql").render_as_string(hide_password=False),
        options=limits,
        client_encoding="utf8",
        connect_timeout=CONNECT_SECONDS,
    )
    connection.read_only = True
    superuser = connection.execute("SELECT usesuper FROM pg_user WHERE usename = current_user")
    if superuser.fetchone() == (True,):
        connection.execute("SET LOCAL ROLE pg_read_all_data")
    return connection


def _declare(connection: psycopg.Connection[tuple[Any, ...]], sql: str) -> None:
    """Declare the statement as a cursor; straight through libpq, whose form takes one only."""
    import psycopg

    # on a line of its own, so that a comment at its end stays one
    declared = f"DECLARE vkbench_query NO SCROLL CURSOR FOR\n{sql}"
    result = connection.pgconn.exec_params(declared.encode(), None)
    if result.status != psycopg.pq.ExecStatus.COMMAND_OK:
        raise psycopg.errors.error_from_result(result)


def _first(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _refused(reason: str, seconds: float) -> QueryRefused:
    late = f" (more than {seconds:g} s)" if reason == "it took too long" else ""
    return QueryRefused(f"the query was refused: {reason}{late}")
