"""Opening: what is right opens, what is wrong says so in one line."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, insert, select, text

from vkbench.errors import ServiceUnreachable, UsageError, VkbenchError
from vkbench_db import schema
from vkbench_db.ask.sql.readonly import query
from vkbench_db.database import Database, try_lead, upgrade
from vkbench_db.errors import DatabaseUnreachable, MalformedUrl, SchemaMissing, SchemaOutdated
from vkbench_db.postgresql import PREPARED


def complaint(error: pytest.ExceptionInfo[VkbenchError]) -> str:
    message = str(error.value)
    assert message
    assert "\n" not in message
    return message


def test_create_makes_a_schema_and_later_only_opens(empty_url: str) -> None:
    for _ in range(2):
        with Database.open(empty_url, create=True) as database, database.transaction() as tx:
            tx.execute(text("INSERT INTO host (name) SELECT 'h' || count(*) FROM host"))
    with Database.open(empty_url) as database, database.reading() as tx:
        assert tx.execute(text("SELECT count(*) FROM host")).scalar() == 2


def test_a_missing_schema_is_named_with_the_remedy(empty_url: str) -> None:
    with pytest.raises(SchemaMissing) as error:
        Database.open(empty_url)
    assert "vkbench db upgrade" in complaint(error)
    assert isinstance(error.value, ServiceUnreachable)


def test_a_new_file_is_its_user_s_alone(tmp_path: Path) -> None:
    """So are its journals; a file that is there keeps its mode."""
    path = tmp_path / "vkbench.db"
    with Database.open(f"sqlite:///{path}", create=True) as database, database.transaction() as tx:
        tx.execute(text("UPDATE run SET label = ''"))
        modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.glob("vkbench.db*")}
    assert set(modes) >= {"vkbench.db", "vkbench.db-wal"}
    assert {mode for name, mode in modes.items() if not name.endswith(".lock")} == {0o600}
    path.chmod(0o640)
    with Database.open(f"sqlite:///{path}", create=True):
        assert path.stat().st_mode & 0o777 == 0o640


def test_opening_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(SchemaMissing):
        Database.open(f"sqlite:///{tmp_path / 'none.db'}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("version", "remedy"), [("0020", "vkbench db upgrade"), ("9999", "update vkbench")]
)
def test_another_versions_schema_is_refused(url: str, version: str, remedy: str) -> None:
    with Database.open(url) as database, database.transaction() as tx:
        tx.execute(text("UPDATE alembic_version SET version_num = :version"), {"version": version})
    with pytest.raises(SchemaOutdated) as error:
        Database.open(url)
    assert remedy in complaint(error)
    assert version in complaint(error)


def test_a_schema_older_than_the_first_release_names_the_commit_that_upgrades_it(url: str) -> None:
    with Database.open(url) as database, database.transaction() as tx:
        tx.execute(text("UPDATE alembic_version SET version_num = '0020'"))
    for act in (Database.open, upgrade):
        with pytest.raises(SchemaOutdated, match=r"schema 0020, .* commit f09369b7") as error:
            act(url)
        assert "\n" not in complaint(error)


def test_a_newer_schema_is_not_upgraded(url: str) -> None:
    with Database.open(url) as database, database.transaction() as tx:
        tx.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(SchemaOutdated):
        upgrade(url)


@pytest.mark.parametrize(
    "url", ["", "nonsense", "mysql://h/d", "sqlite://", "sqlite:///:memory:", "postgresql://h:x/d"]
)
def test_a_url_that_cannot_be_used_is_a_usage_error(url: str) -> None:
    with pytest.raises(MalformedUrl) as error:
        Database.open(url)
    assert isinstance(error.value, UsageError)
    assert "expected sqlite:///" in complaint(error)


def test_an_unreachable_server_is_one_line_without_its_password() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(DatabaseUnreachable) as error:
            Database.open(f"postgresql://me:secret@127.0.0.1:{port}/results")
    assert f"127.0.0.1:{port}/results" in complaint(error)
    assert "secret" not in complaint(error)


def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader, " * 1000)
    for act in (lambda: Database.open(f"sqlite:///{path}"), lambda: upgrade(f"sqlite:///{path}")):
        with pytest.raises(DatabaseUnreachable) as error:
            act()
        assert "not a database" in complaint(error)
    assert path.read_text().startswith("Dear reader")


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(ServiceUnreachable):
        Database.open(f"sqlite:///{tmp_path}", create=True)


@contextmanager
def _as_nobody() -> Iterator[None]:
    """Without root's right to write everywhere."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_a_readonly_file_cannot_be_written_and_says_so(template_file: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = Path(shutil.copy(template_file, folder / "vkbench.db"))
        folder.chmod(0o755)
        path.chmod(0o444)
        with _as_nobody(), pytest.raises(DatabaseUnreachable) as error:  # noqa: SIM117
            with Database.open(f"sqlite:///{path}") as database, database.transaction() as tx:
                tx.execute(insert(schema.host).values(name="alpha"))
    assert "vkbench.db" in complaint(error)


def test_a_failed_transaction_leaves_nothing(database: Database) -> None:
    with pytest.raises(ZeroDivisionError), database.transaction() as tx:  # noqa: PT012
        tx.execute(insert(schema.host).values(name="alpha"))
        raise ZeroDivisionError
    with database.reading() as tx:
        assert tx.execute(text("SELECT count(*) FROM host")).scalar() == 0


@pytest.mark.timeout(60)
@pytest.mark.parametrize("during", ["PRAGMA busy_timeout", "PRAGMA journal_mode", "BEGIN"])
def test_an_interrupt_ends_the_beginning_of_a_transaction(tmp_path: Path, during: str) -> None:
    """It was taken for another writer, which was waited for, as its connection held the file."""
    url = f"sqlite:///{tmp_path}/vkbench.db"
    left = [during]

    def interrupt(connection: Any, cursor: Any, statement: str, *others: Any) -> None:
        if left and statement.startswith(left[0]):
            left.clear()
            raise KeyboardInterrupt

    event.listen(Engine, "after_cursor_execute", interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            Database.open(url, create=True)
    finally:
        event.remove(Engine, "after_cursor_execute", interrupt)
    assert not left


def test_a_reader_sees_one_moment_and_cannot_write(database: Database) -> None:
    count = text("SELECT count(*) FROM host")
    with database.reading() as reader:
        assert reader.execute(count).scalar() == 0
        with database.transaction() as writer:
            writer.execute(insert(schema.host).values(name="alpha"))
        assert reader.execute(count).scalar() == 0


def test_one_dispatcher_leads(database: Database, engine_name: str) -> None:
    with database.transaction() as first:
        assert try_lead(first)
        if engine_name == "postgresql":
            with database.transaction() as second:
                assert not try_lead(second)
    with database.transaction() as next_one:
        assert try_lead(next_one)


def test_foreign_keys_hold(database: Database) -> None:
    from sqlalchemy.exc import IntegrityError

    row = {"key": "k", "host_id": 99, "name": "n", "facts": {}}
    with pytest.raises(IntegrityError), database.transaction() as tx:
        tx.execute(insert(schema.device).values(**row))


def test_reading_imports_neither_alembic_nor_the_orm(template_file: Path) -> None:
    code = (
        "import sys\n"
        "from vkbench_db.ask import queries, results\n"
        "from vkbench_db.database import Database\n"
        f"with Database.open('sqlite:///{template_file}') as d, d.reading() as tx:\n"
        "    assert not results.results(tx) + queries.jobs(tx) + queries.runs(tx)\n"
        "print([m for m in ('alembic', 'sqlalchemy.orm', 'msgspec') if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_database_without_an_encoding_holds_text(cluster: Any) -> None:
    """PostgreSQL makes such clusters where no locale is set, as in a bare container."""
    cluster.execute("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
    url = cluster.url("ascii")
    upgrade(url)
    with Database.open(url) as database, database.transaction() as tx:
        tx.execute(insert(schema.host).values(name="größer"))
        assert tx.execute(select(schema.host.c.name)).scalar() == "größer"
    assert query(url, "SELECT '±' AS sign")[1] == [("±",)]


def test_lists_of_many_lengths_leave_few_plans_in_postgresql(cluster: Any) -> None:
    """A list of another length is another statement, and the server keeps a plan of each."""
    asked = schema.host.c.id
    url = cluster.url(cluster.create())
    upgrade(url)
    with Database.open(url) as database, database.transaction() as tx:
        for length in range(1, 2 * PREPARED):
            for _ in range(6):  # psycopg prepares what it has executed five times
                tx.execute(select(asked).where(asked.in_(range(length))))
        kept = tx.execute(text("SELECT count(*) FROM pg_prepared_statements")).scalar_one()
    assert 0 < kept <= PREPARED + 1  # psycopg drops one after it has prepared another
