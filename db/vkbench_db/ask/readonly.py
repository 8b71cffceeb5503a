"""Run SQL that people wrote, in a way in which it cannot write.

SQLite: a process of its own (`reader`) opens the file read-only, an authorizer lets through nothing
but SELECT, and only one statement is prepared. The kernel ends that process after its seconds, and
holds its memory and its temporary files to their limits.

PostgreSQL: a read-only transaction in which the statement is declared as a cursor; only a SELECT,
VALUES or TABLE can be one, and the extended protocol takes one statement. A superuser's session
first becomes pg_read_all_data, so that no function reads or writes files of the server; that stops
accidents, not a superuser who means harm. Everything is rolled back at the end.
"""

from __future__ import annotations

import base64
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sqlalchemy import URL

from vkbench.errors import VkbenchError
from vkbench_db.ask import public, reader
from vkbench_db.database import CONNECT_SECONDS, parse_url, require_file
from vkbench_db.errors import DatabaseUnreachable, QueryRefused

if TYPE_CHECKING:
    import psycopg

Rows = list[tuple[Any, ...]]

MOST_ROWS = 100_000
MOST_SECONDS = 60.0
MOST_BYTES = 2**26  # of one value
MOST_MEMORY = 2**30  # of the process that reads SQLite, of each temporary file, and of the answer
PAGE_ROWS = 500  # fetched at once
MOST_PUBLIC_BYTES = 2**25  # of all values of a public answer
_PUBLIC_MEMORY = 2**28


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How much a statement may read."""

    rows: int = MOST_ROWS
    seconds: float = MOST_SECONDS
    is_public: bool = False  # the documented views alone, as `public` says
    as_superuser: bool = False  # public statements may run in a superuser's session

    @property
    def memory(self) -> int:
        """Bytes that the process which reads SQLite may use."""
        return _PUBLIC_MEMORY if self.is_public else MOST_MEMORY


USUAL = Bounds()


def query(url: str, sql: str, bounds: Bounds = USUAL) -> tuple[list[str], Rows]:
    """Run one reading statement; return its columns and rows.

    QueryRefused for anything else, for more rows than the bounds allow, and after their seconds.
    """
    parsed = parse_url(url)
    statement = _statement(sql)
    if parsed.get_backend_name() == "sqlite":
        return _query_sqlite(Path(str(parsed.database)), statement, bounds)
    return _query_postgresql(parsed, statement, bounds)


def query_blank(sql: str, bounds: Bounds = USUAL) -> tuple[list[str], Rows]:
    """The same on a blank database, where no database has been made yet."""
    from vkbench_db.ask.blank import blank

    statement = _statement(sql)
    with blank() as database, closing(database.engine.raw_connection()) as raw:
        connection = raw.driver_connection
        assert isinstance(connection, sqlite3.Connection)
        return _ask_reader("", connection.serialize(), statement, bounds)


def _statement(sql: str) -> str:
    statement = sql.strip().rstrip(";").strip()
    if not statement:
        raise QueryRefused("the query is empty")
    if "\0" in statement:
        raise QueryRefused("the query holds a null character")
    return statement


def _fetched(more: Callable[[int], Rows], bounds: Bounds) -> Rows:
    """All rows, as long as they are few and small enough."""
    rows: Rows = []
    size = 0
    while some := more(PAGE_ROWS):
        rows += some
        if len(rows) > bounds.rows:
            raise QueryRefused(f"the query gives more than {bounds.rows} rows: add LIMIT to it")
        if bounds.is_public:
            size += sum(len(cell) for row in some for cell in row if isinstance(cell, str | bytes))
            if size > MOST_PUBLIC_BYTES:
                raise QueryRefused(f"the query gives more than {MOST_PUBLIC_BYTES >> 20} MB")
    return rows


def _query_sqlite(path: Path, sql: str, bounds: Bounds) -> tuple[list[str], Rows]:
    require_file(path)
    return _ask_reader(f"{path.absolute().as_uri()}?mode=ro", b"", sql, bounds)


def _ask_reader(uri: str, image: bytes, sql: str, bounds: Bounds) -> tuple[list[str], Rows]:
    """Have `reader` run a statement on a file, or on the image of a database."""
    asked = {
        "uri": uri,
        "sql": sql,
        "seconds": bounds.seconds,
        "memory": bounds.memory,
        "files": bounds.memory,
        "value": public.MOST_BYTES if bounds.is_public else MOST_BYTES,
        "views": public.VIEWS if bounds.is_public else (),
    }
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", reader.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        try:
            return _answered(process, json.dumps(asked).encode() + b"\n" + image, bounds)
        finally:
            process.kill()


def _answered(
    process: subprocess.Popen[bytes], request: bytes, bounds: Bounds
) -> tuple[list[str], Rows]:
    assert process.stdin
    assert process.stdout
    with suppress(BrokenPipeError):  # it ended before it had read all; its status says why
        process.stdin.write(request)
        process.stdin.close()
    lines = _lines(process.stdout, bounds)
    columns = next(lines, None)
    if columns is None:
        raise QueryRefused("the query reads nothing: only a SELECT can be run")
    rows = _fetched(lambda _: next(lines, []), bounds)
    return columns, rows


def _lines(answer: IO[bytes], bounds: Bounds) -> Iterator[Any]:
    """What the reader says; QueryRefused if it met an error, or was ended."""
    left = bounds.memory
    while line := answer.readline(left + 1):
        left -= len(line)
        if left < 0:
            raise QueryRefused(f"the query gives more than {bounds.memory >> 20} MB")
        if not line.endswith(b"\n"):
            break
        said = json.loads(line, object_hook=_cell)
        if said == reader.END:
            return
        if isinstance(said, dict):
            raise _sqlite_error(said[reader.ERROR], bounds)
        yield [tuple(row) for row in said] if said and isinstance(said[0], list) else said
    raise _refused("it took too long", bounds.seconds)


def _cell(said: dict[str, str]) -> dict[str, str] | bytes:
    return base64.b64decode(said[reader.BYTES]) if reader.BYTES in said else said


def _sqlite_error(reason: str, bounds: Bounds) -> VkbenchError:
    if "unable to open" in reason or "not a database" in reason:
        return DatabaseUnreachable(f"the database cannot be used: {reason}")
    if bounds.is_public and "is prohibited" in reason:
        reason = public.ONLY_VIEWS
    return _refused(_PLAIN.get(reason.rstrip("."), reason), bounds.seconds)


_READING = ("select", "with", "values", "table", "(", "--", "/*")
_WRITES = "it does more than read: only one SELECT can be run"
_PLAIN = {
    "not authorized": _WRITES,
    "authorization denied": _WRITES,
    "cannot insert multiple commands into a prepared statement": "only one statement can be run",
    "You can only execute one statement at a time": "only one statement can be run",
    "database or disk is full": "it needs too much room for temporary files",
    "disk I/O error": "it needs too much room for temporary files",
    "out of memory": reader.NO_MEMORY,
}


def _query_postgresql(url: URL, sql: str, bounds: Bounds) -> tuple[list[str], Rows]:
    import psycopg  # only hosts with a PostgreSQL database have it

    seconds = bounds.seconds
    try:
        with closing(_connect(url, seconds)) as connection:  # rolls back: nothing commits
            if bounds.is_public:
                public.check_postgresql(connection, sql, as_superuser=bounds.as_superuser)
            _restrict(connection)
            _declare(connection, sql)
            return _read(connection, bounds)
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


def _read(
    connection: psycopg.Connection[tuple[Any, ...]], bounds: Bounds
) -> tuple[list[str], Rows]:
    columns: list[str] = []

    def more(rows: int) -> Rows:
        cursor = connection.execute(b"FETCH FORWARD %d FROM vkbench_query" % rows)
        columns[:] = [column.name for column in cursor.description or ()]
        return cursor.fetchall()

    rows = _fetched(more, bounds)
    return columns, rows


def _connect(url: URL, seconds: float) -> psycopg.Connection[tuple[Any, ...]]:
    import psycopg

    return psycopg.connect(
        url.set(drivername="postgresql").render_as_string(hide_password=False),
        options=f"-c statement_timeout={int(seconds * 1000)} -c timezone=UTC",
        client_encoding="utf8",
        connect_timeout=CONNECT_SECONDS,
    )


def _restrict(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Begin a transaction that reads, as pg_read_all_data where the session is a superuser's."""
    connection.read_only = True
    superuser = connection.execute("SELECT usesuper FROM pg_user WHERE usename = current_user")
    if superuser.fetchone() == (True,):
        connection.execute("SET LOCAL ROLE pg_read_all_data")


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
