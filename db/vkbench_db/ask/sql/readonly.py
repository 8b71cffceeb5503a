"""Run SQL that people wrote, in a way in which it cannot write.

Each statement runs in a process of its own. The kernel ends it after its seconds, and holds its
memory and its temporary files to their limits, so that no answer fills the memory of who asked.

SQLite: `reader` opens the file read-only, an authorizer lets through nothing but SELECT, and only
one statement is prepared.

PostgreSQL: `postgresql_reader` begins a read-only transaction in which the statement is declared as
a cursor; only a SELECT, VALUES or TABLE can be one, and the extended protocol takes one statement.
A superuser's session first becomes pg_read_all_data, so that no function reads or writes files of
the server; that stops accidents, not a superuser who means harm. Everything is rolled back at the
end.
"""

from __future__ import annotations

import base64
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from sqlalchemy import URL

from vkbench.errors import VkbenchError
from vkbench_db import postgresql
from vkbench_db.ask.sql import public, reader
from vkbench_db.database import NO_DRIVER, parse_url, require_file
from vkbench_db.errors import DatabaseUnreachable, QueryRefused

Rows = list[tuple[Any, ...]]

MOST_ROWS = 100_000
MOST_SECONDS = 60.0
MOST_BYTES = 2**26  # of one value
MOST_MEMORY = 2**30  # of the process that reads, of each temporary file, and of the answer
_POSTGRESQL_READER = "vkbench_db.ask.sql.postgresql_reader"
MOST_PUBLIC_BYTES = 2**25  # of all values of a public answer
_PUBLIC_MEMORY = 2**28


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How much a statement may read."""

    rows: int = MOST_ROWS
    seconds: float = MOST_SECONDS
    is_public: bool = False  # the documented views alone, as `public` says

    @property
    def memory(self) -> int:
        """Bytes that the process which reads may use."""
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
    """Run a reading statement on a blank database, where none has been made yet."""
    from vkbench_db.blank import blank_database

    statement = _statement(sql)
    with blank_database() as database, closing(database.engine.raw_connection()) as raw:
        connection = raw.driver_connection
        assert isinstance(connection, sqlite3.Connection)
        return _ask_sqlite("", connection.serialize(), statement, bounds)


def _statement(sql: str) -> str:
    statement = sql.strip().rstrip(";").strip()
    if not statement:
        raise QueryRefused("the query is empty")
    if "\0" in statement:
        raise QueryRefused("the query holds a null character")
    return statement


def _fetch_rows(pages: Iterator[Rows], bounds: Bounds) -> Rows:
    """All rows, as long as they are few and small enough."""
    rows: Rows = []
    size = 0
    for some in pages:
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
    return _ask_sqlite(f"{path.absolute().as_uri()}?mode=ro", b"", sql, bounds)


def _ask_sqlite(uri: str, image: bytes, sql: str, bounds: Bounds) -> tuple[list[str], Rows]:
    """Have `reader` run a statement on a file, or on the image of a database."""
    value = public.MOST_BYTES if bounds.is_public else MOST_BYTES
    request = _request(sql, bounds) | {"uri": uri, "value": value}
    words = ["-S", reader.__file__]
    return _ask_reader(words, request, image, bounds, lambda error: _sqlite_error(error, bounds))


def _request(sql: str, bounds: Bounds) -> dict[str, Any]:
    return {
        "sql": sql,
        "seconds": bounds.seconds,
        "memory": bounds.memory,
        "files": bounds.memory,
        "views": public.VIEWS if bounds.is_public else (),
    }


def _ask_reader(
    words: Sequence[str],
    asked: dict[str, Any],
    image: bytes,
    bounds: Bounds,
    error_of: Callable[[dict[str, str]], VkbenchError],
) -> tuple[list[str], Rows]:
    """The answer of a process of Python that these words start."""
    process = subprocess.Popen(
        [sys.executable, "-I", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    request = json.dumps(asked).encode() + b"\n" + image
    with process:
        try:
            return _answer_of(process, request, bounds, error_of)
        finally:
            process.kill()


def _answer_of(
    process: subprocess.Popen[bytes],
    request: bytes,
    bounds: Bounds,
    error_of: Callable[[dict[str, str]], VkbenchError],
) -> tuple[list[str], Rows]:
    assert process.stdin
    assert process.stdout
    with suppress(BrokenPipeError):  # it ended before it had read all; its status says why
        process.stdin.write(request)
        process.stdin.close()
    lines = _lines(process.stdout, bounds, error_of)
    columns = next(lines, None)
    if columns is None:
        raise QueryRefused("the query reads nothing: only a SELECT can be run")
    rows = _fetch_rows(lines, bounds)
    return columns, rows


def _lines(
    answer: IO[bytes], bounds: Bounds, error_of: Callable[[dict[str, str]], VkbenchError]
) -> Iterator[Any]:
    """What the reader says; QueryRefused if it met an error, or was ended."""
    left = bounds.memory
    while line := answer.readline(left + 1):
        left -= len(line)
        if left < 0:
            raise QueryRefused(f"the query gives more than {bounds.memory >> 20} MB")
        if not line.endswith(b"\n"):
            break
        answer_line = json.loads(line, object_hook=_cell)
        if answer_line == reader.END:
            return
        if isinstance(answer_line, dict):
            raise error_of(answer_line)
        yield (
            [tuple(row) for row in answer_line]
            if answer_line and isinstance(answer_line[0], list)
            else answer_line
        )
    raise _refuse_query(_LATE, bounds.seconds)


def _cell(cell: dict[str, str]) -> Any:
    if reader.BYTES in cell:
        return base64.b64decode(cell[reader.BYTES])
    return json.loads(cell[reader.NESTED]) if reader.NESTED in cell else cell


def _sqlite_error(error: dict[str, str], bounds: Bounds) -> VkbenchError:
    reason = error[reader.ERROR]
    if "unable to open" in reason or "not a database" in reason:
        return DatabaseUnreachable(f"the database cannot be used: {reason}")
    if bounds.is_public and "is prohibited" in reason:
        reason = public.ONLY_VIEWS
    return _refuse_query(_PLAIN.get(reason.rstrip("."), reason), bounds.seconds)


_LATE = "it took too long"
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
    "out of memory for query result": reader.NO_MEMORY,
}


def _query_postgresql(url: URL, sql: str, bounds: Bounds) -> tuple[list[str], Rows]:
    if not find_spec("psycopg"):
        raise DatabaseUnreachable(NO_DRIVER)
    request = _request(sql, bounds) | {
        "url": url.set(drivername="postgresql").render_as_string(hide_password=False),
        "connect_seconds": postgresql.connect_seconds(url),
    }

    def error_of(error: dict[str, str]) -> VkbenchError:
        reason, kind = error[reader.ERROR], error[reader.KIND]
        if kind == reader.UNREACHABLE:
            place = postgresql.place(url)
            return DatabaseUnreachable(f"the database {place} cannot be used: {reason}")
        if kind == reader.LATE:
            reason = _LATE
        if kind == reader.SYNTAX and not sql.casefold().startswith(_READING):
            reason = _WRITES
        return _refuse_query(_PLAIN.get(reason, reason), bounds.seconds)

    return _ask_reader(["-m", _POSTGRESQL_READER], request, b"", bounds, error_of)


def _refuse_query(reason: str, seconds: float) -> QueryRefused:
    late = f" (more than {seconds:g} s)" if reason == _LATE else ""
    return QueryRefused(f"the query was refused: {reason}{late}")
