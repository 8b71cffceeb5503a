"""Runs one statement on SQLite, in a process that the kernel ends when its time is up.

One step of SQLite's virtual machine may take minutes: replace() and instr() on large texts look at
no clock. So `readonly` starts this file as a script. It imports the standard library alone, because
it starts for each query. The request is a line of JSON on stdin, before the bytes of a database
that lies in memory alone; the answer is lines of JSON on stdout, the last one a word of the end.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from typing import Any, Final

PAGE_ROWS: Final = 500  # fetched at once
BYTES: Final = "base64"  # key of a cell that is no text
NESTED: Final = "json"  # key of a cell that is a list or a mapping
END: Final = "end"
ERROR: Final = "error"
KIND: Final = "kind"  # key of what kind of error PostgreSQL has met
LATE: Final = "late"
SYNTAX: Final = "syntax"
UNREACHABLE: Final = "unreachable"
REFUSED: Final = "refused"
NO_MEMORY: Final = "it needs too much memory"
_OPEN_FILES = 24  # the database, its log, and temporary files
_NICENESS = 10
_LIKE_LENGTH = 200  # a longer pattern may take hours for one text
_JSON_TABLES = ("json_each", "json_tree")
_SIMPLE = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE)
_ALLOWED = (*_SIMPLE, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION)

Authorizer = Callable[..., int]


def main() -> None:
    """Read a request, and write the answer."""
    request = json.loads(sys.stdin.buffer.readline())
    limit(request)
    try:
        for page in _pages(request):
            say(page)
        say(END)
    except MemoryError:
        say({ERROR: NO_MEMORY})
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        say({ERROR: str(error)})


def limit(request: dict[str, Any]) -> None:
    """Let the kernel hold this process to its time, memory and files, unless it is Windows.

    Services of this machine go first: a statement has the processors that they leave.
    """
    try:
        import resource
    except ImportError:
        return
    os.nice(_NICENESS)
    seconds = request["seconds"]
    signal.setitimer(signal.ITIMER_REAL, seconds)  # nothing handles it, so it kills
    for what, most in (
        (resource.RLIMIT_CPU, int(seconds) + 1),
        (resource.RLIMIT_AS, request["memory"]),
        (resource.RLIMIT_FSIZE, request["files"]),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def _pages(request: dict[str, Any]) -> Any:
    """The columns, and then the rows, some at a time."""
    cursor = _open_readonly(request).execute(request["sql"])
    yield cursor.description and [column[0] for column in cursor.description]
    while rows := cursor.fetchmany(PAGE_ROWS):
        yield rows


def _open_readonly(request: dict[str, Any]) -> sqlite3.Connection:
    if request["uri"]:
        connection = sqlite3.connect(request["uri"], uri=True)
    else:
        connection = sqlite3.connect(":memory:")
        connection.deserialize(sys.stdin.buffer.read())
    connection.execute(f"PRAGMA hard_heap_limit = {request['memory'] // 2}")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, request["value"])
    connection.execute("PRAGMA query_only = ON")
    views = request["views"]
    if views:  # many files, each within its bound, would be more than a stranger may have
        connection.execute("PRAGMA temp_store = MEMORY")
    connection.set_authorizer(guard(connection, views) if views else _authorize)
    return connection


def _authorize(action: int, first: str | None, *_: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def guard(connection: sqlite3.Connection, views: list[str]) -> Authorizer:
    """An authorizer that lets through these views alone; see `public` for why it is as it is."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, _LIKE_LENGTH)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    read = _columns_of(views, connection)
    sources = {source for _, _, source in read} - {None}
    columns = {(table, column) for table, column, _ in read}
    # How many rows a table of the views has is no secret, and SQLite asks for no more than this
    # where a query needs no column of a table that its view joins.
    hidden = tables - {table for table, _ in columns} - set(views)

    def authorize(action: int, first: str | None, second: str | None, *more: str | None) -> int:
        if action in _SIMPLE:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION:
            is_loading = str(second).casefold() == "load_extension"
            return sqlite3.SQLITE_DENY if is_loading else sqlite3.SQLITE_OK
        if action != sqlite3.SQLITE_READ:
            return sqlite3.SQLITE_DENY
        is_named = first in views or first in _JSON_TABLES
        is_of_view = (first, second) in columns and more[-1] in sources
        is_counted = second == "" and first not in hidden
        allowed = is_named or is_of_view or is_counted
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    return authorize


def _columns_of(views: list[str], connection: sqlite3.Connection) -> set[tuple[Any, ...]]:
    """What the views read: table, column, and the name that it is read for."""
    read: set[tuple[Any, ...]] = set()

    def note(action: int, first: str | None, second: str | None, *more: str | None) -> int:
        if action == sqlite3.SQLITE_READ:
            read.add((first, second, more[-1]))
        return sqlite3.SQLITE_OK

    connection.set_authorizer(note)
    for view in views:
        connection.execute(f"SELECT * FROM {view} LIMIT 0")
    connection.set_authorizer(None)
    return read


def say(what: object) -> None:
    """Write a line of the answer."""
    line = json.dumps(what, ensure_ascii=False, default=_bytes)
    sys.stdout.buffer.write(line.encode() + b"\n")
    sys.stdout.buffer.flush()


def _bytes(cell: bytes) -> dict[str, str]:
    return {BYTES: base64.b64encode(cell).decode()}


if __name__ == "__main__":
    main()
