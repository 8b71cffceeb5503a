"""The database: opened, checked against this version's schema, and its transactions.

    with Database.open(settings().database_url()) as database, database.transaction() as tx:
        store.pick(tx, ...)

A writing transaction on SQLite is BEGIN IMMEDIATE, so one process writes at a time, and claims need
no row locks there. On PostgreSQL the store locks the rows that it is about to move, by rising id.
"""

from __future__ import annotations

import os
import shlex
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import URL, Connection, Engine, create_engine, event, exc, text

from vkbench.messages.urls import hide_password
from vkbench_db import postgresql, waiting
from vkbench_db.errors import (
    DatabaseBusy,
    DatabaseUnreachable,
    MalformedUrl,
    SchemaMissing,
    SchemaOutdated,
)

_VERSIONS = Path(__file__).parent / "migrations" / "versions"
_NUMBERS = sorted(path.name[:4] for path in _VERSIONS.glob("[0-9]*.py"))
FIRST, SCHEMA = _NUMBERS[0], _NUMBERS[-1]  # the first schema, and the newest migration
_LAST_COMMIT_BEFORE = "f09369b7"  # of the git history: it upgrades all older schemas to the first
BUSY_SECONDS = 10  # how long a statement of SQLite waits, as for a log that is read after a crash
_LIMITS_OF_ROWS = "54"  # class of SQLSTATE: a row or key too large, which psycopg calls operational
_WAIT = f"PRAGMA busy_timeout = {1000 * BUSY_SECONDS}"
_HAS_LOG = "has a write-ahead log"  # of a connection to SQLite
NO_DRIVER = "PostgreSQL needs psycopg: pip install 'vkbench[scheduler]'"
LEADER_LOCK = 0x766B62  # PostgreSQL advisory lock of the one dispatcher
WATCH_LOCK = 0x766B63  # of the one process that runs the steps of detection

Transaction = Connection  # what callers outside db and detection call it: they write no SQL


@dataclass(frozen=True)
class Database:
    """An open database whose schema is this version's."""

    engine: Engine
    is_watched: bool = False  # whether each transaction checks the schema again

    @classmethod
    def open(cls, url: str, *, create: bool = False, watch: bool = False) -> Database:
        """Open and check; with `create` a database that has no tables yet is given them.

        A service says `watch`: a newer vkbench may upgrade the database under it, and then each of
        its transactions raises SchemaOutdated.
        """
        parsed = parse_url(url)
        if create and _lacks_tables(parsed):
            upgrade(url)
        if parsed.get_backend_name() == "sqlite":
            require_file(Path(str(parsed.database)))
        database = cls(_engine(parsed), watch)
        try:
            with database.reading() as tx:
                _check_schema(tx)
        except BaseException:
            database.close()
            raise
        return database

    def close(self) -> None:
        """Close every connection of the pool."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def transaction(self, waits: Callable[[], bool] | None = None) -> Iterator[Connection]:
        """A writing transaction: committed at the end, rolled back by any exception.

        Another writer of SQLite is waited for, by commands with a sentence on stderr; DatabaseBusy
        is raised once that took too long. With `waits` it may take as long as that says so.
        """
        with _translate_errors(self.engine), ExitStack() as stack:
            tx = stack.enter_context(_begin_writing(self.engine, self._patience(waits)))
            if self.is_watched:
                _check_schema(tx)
            yield tx

    def _patience(self, waits: Callable[[], bool] | None) -> waiting.WriterWait:
        if self.is_watched:
            return waiting.WriterWait(waiting.SERVICE_SECONDS, is_told=False)
        if waits:
            return waiting.WriterWait(waiting.SERVICE_SECONDS, waits, is_told=True)
        return waiting.WriterWait(waiting.COMMAND_SECONDS, is_told=True)

    def let_others_in(self) -> None:
        """Leave the database to writers that wait; SQLite has no queue of them, and no fairness."""
        if self.engine.dialect.name == "sqlite":
            time.sleep(waiting.LET_IN_SECONDS)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A reading transaction that sees one moment of the database and blocks no writer."""
        with _translate_errors(self.engine), self.engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
            else:
                connection.execution_options(reading=True)
            with connection.begin():
                if self.is_watched:
                    _check_schema(connection)
                yield connection


def upgrade(url: str) -> None:
    """Bring the schema to this version, from nothing or from an older one."""
    from vkbench_db import migrations  # alembic is slow to import, and reading never needs it

    parsed = parse_url(url)
    _make_file(parsed)
    patience = waiting.WriterWait(waiting.COMMAND_SECONDS, is_told=True)
    with (
        _dispose_after(_engine(parsed)) as engine,
        _translate_errors(engine),
        _begin_writing(engine.execution_options(altering=True), patience) as tx,
    ):
        _check_not_before_first(tx)
        _check_not_ahead(tx)
        migrations.upgrade(tx)
        _check_foreign_keys(tx)


@contextmanager
def _begin_writing(engine: Engine, patience: waiting.WriterWait) -> Iterator[Connection]:
    """A writing transaction that begins once no other process writes."""
    with ExitStack() as stack:
        while True:
            try:
                tx = stack.enter_context(engine.begin())
                break
            except exc.OperationalError as error:
                if not (_is_busy(error) and patience.again()):
                    raise
        yield tx


def try_lead(tx: Connection) -> bool:
    """Whether this transaction is the only one that dispatches, until it ends.

    On SQLite every writing transaction already is the only one.
    """
    if tx.dialect.name != "postgresql":
        return True
    attempt = text("SELECT pg_try_advisory_xact_lock(:lock)")
    return bool(tx.execute(attempt, {"lock": LEADER_LOCK}).scalar())


def watch_alone(tx: Connection) -> None:
    """Wait for others that place or judge results, and keep them out until `tx` ends."""
    if tx.dialect.name == "postgresql":
        tx.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": WATCH_LOCK})


def parse_url(url: str) -> URL:
    """A URL of SQLite (a file) or PostgreSQL; MalformedUrl for anything else."""
    try:
        parsed = postgresql.parse(url)
    except (exc.ArgumentError, ValueError):  # its text may hold a part of the password
        raise MalformedUrl(f"malformed database URL '{hide_password(url)}': {_FORMS}") from None
    backend = parsed.drivername.partition("+")[0]
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite" or parsed.database in (None, "", ":memory:"):
        raise MalformedUrl(f"unusable database URL '{hide_password(url)}': {_FORMS}")
    return parsed


_FORMS = (
    "expected sqlite:///path/to/file or postgresql://user:password@host:port/name, "
    "or host:port,host:port of servers that take each other's place"
)


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    try:
        return postgresql.engine(url)
    except ImportError as error:
        raise DatabaseUnreachable(NO_DRIVER) from error


def _configure_sqlite(connection: object, record: object) -> None:
    connection.isolation_level = None  # type: ignore[attr-defined]  # BEGIN is ours to say
    for pragma in ("foreign_keys = ON", "synchronous = NORMAL"):
        connection.execute(f"PRAGMA {pragma}")  # type: ignore[attr-defined]


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("reading", False):
        connection.exec_driver_sql("BEGIN")
        return
    say = connection.exec_driver_sql
    say("PRAGMA busy_timeout = 0")  # SQLite's own wait is deaf to signals and grows
    try:
        if not connection.info.get(_HAS_LOG):  # a new file, or a restored backup
            say("PRAGMA journal_mode = WAL")  # not possible in a transaction
            connection.info[_HAS_LOG] = True
        if options.get("altering"):  # by copying tables that others refer to meanwhile
            say("PRAGMA foreign_keys = OFF")  # not possible in a transaction either
        say("BEGIN IMMEDIATE")
    except exc.OperationalError:
        say(_WAIT)
        raise  # Ctrl-C goes by: SQLAlchemy closes its connection, and would open another here
    say(_WAIT)


def _check_foreign_keys(tx: Connection) -> None:
    if tx.dialect.name != "sqlite":
        return
    if broken := tx.execute(text("PRAGMA foreign_key_check")).first():
        raise SchemaOutdated(
            f"nothing was upgraded: rows of the table {broken[0]} refer to rows that are not there"
        )


def _make_file(url: URL) -> None:
    if url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:"):
        path = Path(str(url.database))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DatabaseUnreachable(
                f"cannot make the folder {path.parent}: {error.strerror}"
            ) from error
        with suppress(OSError):  # SQLite says better why a file cannot be made
            os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))  # its journals are as private


def require_file(path: Path) -> None:
    """SchemaMissing unless SQLite's file is there: opening it would make an empty one."""
    if path.is_dir():
        raise SchemaMissing(f"{path} is a folder, no database: check the name")
    if not path.is_file():
        raise SchemaMissing(
            f"there is no database {path}: check the name, or make it with "
            f"`vkbench db upgrade --database {path}`"
        )


def _lacks_tables(url: URL) -> bool:
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).is_file():
        return True
    with _dispose_after(_engine(url)) as engine, _translate_errors(engine), engine.connect() as tx:
        return _version(tx.execution_options(reading=True)) is None  # blocks no writer


@contextmanager
def _dispose_after(engine: Engine) -> Iterator[Engine]:
    try:
        yield engine
    finally:
        engine.dispose()


def _check_schema(tx: Connection) -> None:
    version = _version(tx)
    if version is None:
        raise SchemaMissing(f"{_place(tx.engine)} has no vkbench tables; {_remedy(tx.engine)}")
    _check_not_before_first(tx)
    if version < SCHEMA:
        raise SchemaOutdated(
            f"{_place(tx.engine)} has schema {version} and this vkbench needs {SCHEMA}; "
            f"{_remedy(tx.engine)}"
        )
    _check_not_ahead(tx)


def _check_not_before_first(tx: Connection) -> None:
    version = _version(tx)
    if version is not None and version < FIRST:
        raise SchemaOutdated(
            f"{_place(tx.engine)} has schema {version}, older than any release of vkbench: check "
            f"out commit {_LAST_COMMIT_BEFORE} of its repository, {_remedy(tx.engine)} with that, "
            "and use this version again"
        )


def _check_not_ahead(tx: Connection) -> None:
    version = _version(tx)
    if version is not None and version > SCHEMA:
        raise SchemaOutdated(
            f"{_place(tx.engine)} has schema {version}, newer than this vkbench knows ({SCHEMA}); "
            "update vkbench"
        )


def _version(tx: Connection) -> str | None:
    table = {
        "sqlite": "SELECT name FROM sqlite_master WHERE name = 'alembic_version'",
        "postgresql": "SELECT to_regclass('alembic_version')::text",
    }[tx.dialect.name]
    if tx.exec_driver_sql(table).scalar() is None:
        return None
    version = tx.exec_driver_sql("SELECT max(version_num) FROM alembic_version").scalar()
    return None if version is None else str(version)


@contextmanager
def _translate_errors(engine: Engine) -> Iterator[None]:
    try:
        yield
    except exc.DBAPIError as error:
        if not _is_environmental(error):
            raise
        if _is_busy(error):
            raise DatabaseBusy(
                f"{_place(engine)} is in use: another process writes to it and does not end"
            ) from error
        raise DatabaseUnreachable(f"{_place(engine)} cannot be used: {reason_of(error)}") from error


def is_of_schema(error: Exception) -> bool:
    """Whether a statement failed for its table or column: the database is of another version."""
    return isinstance(error, exc.ProgrammingError)


def reason_of(error: Exception) -> str:
    """Why a statement failed, in the database's own words, a line."""
    return str(getattr(error, "orig", None) or error).strip().partition("\n")[0]


def _is_busy(error: exc.DBAPIError) -> bool:
    """Whether another writer holds SQLite's file."""
    return getattr(error.orig, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _is_environmental(error: exc.DBAPIError) -> bool:
    """Whether the database is to blame (gone, locked, full, none) and not our SQL or its values."""
    state = getattr(error.orig, "sqlstate", None) or ""  # of PostgreSQL
    if state.startswith(_LIMITS_OF_ROWS):
        return False
    return (
        isinstance(error, exc.OperationalError | exc.InterfaceError)
        or state == postgresql.READ_ONLY
        or error.connection_invalidated
        or type(error) is exc.DatabaseError  # SQLite: "file is not a database"
    )


def _remedy(engine: Engine) -> str:
    # Without its name the command would upgrade the default database, whichever was asked.
    is_file = engine.url.get_backend_name() == "sqlite"
    named = f" --database {shlex.quote(str(engine.url.database))}" if is_file else ""
    return f"run `vkbench db upgrade{named}`"


def _place(engine: Engine) -> str:
    if engine.url.get_backend_name() == "sqlite":
        return f"the database {engine.url.database}"
    return f"the database {postgresql.place(engine.url)}"
