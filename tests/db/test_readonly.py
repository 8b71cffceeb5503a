"""People's SQL reads, and cannot write however it tries."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from sqlalchemy import inspect, select, text

from databases import Lab
from vkbench.errors import UsageError
from vkbench_db import schema
from vkbench_db.ask.sql import readonly
from vkbench_db.database import Database
from vkbench_db.errors import DatabaseUnreachable, MalformedUrl, QueryRefused, SchemaMissing

WRITES = [
    "INSERT INTO host (name) VALUES ('evil')",
    "UPDATE host SET name = 'evil'",
    "DELETE FROM host",
    "DROP TABLE host",
    "DROP VIEW v_results",
    "CREATE TABLE evil (x integer)",
    "CREATE TEMP TABLE evil AS SELECT 1",
    "ALTER TABLE host ADD COLUMN evil text",
    "WITH gone AS (DELETE FROM host RETURNING id) SELECT * FROM gone",
    "SELECT * INTO evil FROM host",
    "SELECT 1; DELETE FROM host",
    "SELECT 1; SELECT 2",
    "SELECT 1) ; DELETE FROM host; --",
    "COMMIT; DELETE FROM host",
    "COMMIT",
    "ROLLBACK",
    "BEGIN",
    "SET TRANSACTION READ WRITE",
    "SET ROLE postgres",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SELECT set_config('default_transaction_read_only', 'off', false); DELETE FROM host",
    "ATTACH DATABASE '{folder}/evil.db' AS evil",
    "VACUUM INTO '{folder}/evil.db'",
    "VACUUM",
    "PRAGMA writable_schema = 1",
    "PRAGMA query_only = OFF",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA user_version = 7",
    "COPY (SELECT 1) TO PROGRAM 'touch {folder}/evil'",
    "COPY (SELECT 1) TO '{folder}/evil'",
    "COPY host FROM PROGRAM 'echo 9,evil'",
    "SELECT lo_export(1, '{folder}/evil')",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT load_extension('{folder}/evil')",
    "SELECT nextval('host_id_seq')",
    "SELECT * FROM host FOR UPDATE",
    "EXPLAIN ANALYZE DELETE FROM host",
    "DO $$ BEGIN DELETE FROM host; END $$",
    "CALL evil()",
    "LISTEN evil",
    "LOCK TABLE host",
    "GRANT ALL ON host TO public",
]


COUNTING = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"


def snapshot(database: Database) -> object:
    with database.reading() as tx:
        tables = set(inspect(tx).get_table_names()) | set(inspect(tx).get_view_names())
        return tables, tx.execute(select(schema.host)).all()


@pytest.mark.parametrize("sql", WRITES)
def test_nothing_is_written(lab: Lab, url: str, tmp_path: Path, sql: str) -> None:
    lab.add_device()
    before = snapshot(lab.database)
    with pytest.raises(QueryRefused) as error:
        readonly.query(url, sql.format(folder=tmp_path))
    assert snapshot(lab.database) == before
    assert not list(tmp_path.glob("evil*"))
    assert "\n" not in str(error.value)
    assert isinstance(error.value, UsageError)
    lab.add_device("another")  # and nothing is left locked


@pytest.mark.parametrize("engine_name", ["postgresql"], indirect=True)
def test_side_effects_of_functions_are_rolled_back(lab: Lab, url: str) -> None:
    """SQLite has no function with side effects."""
    readonly.query(url, "SELECT lo_from_bytea(4711, 'x')")
    readonly.query(url, "SELECT pg_advisory_lock(1), set_config('role', 'none', false)")
    assert readonly.query(url, "SELECT oid FROM pg_largeobject_metadata")[1] == []
    with lab.database.transaction() as tx:
        assert tx.execute(text("SELECT pg_try_advisory_xact_lock(1)")).scalar()


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT 1 AS a, 'x%' AS b", [(1, "x%")]),
        ("  select 1, 2 ; ", [(1, 2)]),
        ("SELECT name FROM host WHERE name LIKE 'al%' -- the first", [("alpha",)]),
        ("WITH x AS (SELECT 2 AS n) SELECT n FROM x", [(2,)]),
        ("VALUES (1), (2)", [(1,), (2,)]),
        ("/* why */ SELECT ';' ", [(";",)]),
        ("SELECT name FROM host WHERE 1 = 0", []),
        ("SELECT driver, driver_version FROM environment", [("llvmpipe", "22.3.6")]),
    ],
)
def test_reading_works(lab: Lab, url: str, sql: str, rows: list[tuple[object, ...]]) -> None:
    lab.add_device()
    assert readonly.query(url, sql)[1] == rows


def test_the_views_can_be_asked(lab: Lab, url: str) -> None:
    device = lab.add_device()
    lab.submit(device, 3)
    lab.settle(device)
    columns, rows = readonly.query(
        url,
        "SELECT device_name, case_name, metric, gb_per_second FROM v_latest"
        " WHERE metric = 'hot' AND state = 'passed' ORDER BY case_name",
    )
    assert columns == ["device_name", "case_name", "metric", "gb_per_second"]
    assert [row[:3] for row in rows] == [
        ("llvmpipe", f"mul_mat_vec/q4_0/m{m}_n1_k256", "hot") for m in (1, 2, 3)
    ]
    assert rows[0][3] == pytest.approx(1.0)


@pytest.mark.parametrize("sql", ["", "  ", ";", "selec 1", "SELECT * FROM nowhere", "SELECT 1\0"])
def test_what_is_no_query_is_refused(url: str, sql: str) -> None:
    with pytest.raises(QueryRefused, match="query"):
        readonly.query(url, sql)


def test_too_many_rows_are_refused_and_just_enough_are_not(url: str) -> None:
    sql = f"{COUNTING} WHERE i < 11) SELECT i FROM n"
    assert len(readonly.query(url, sql, readonly.Bounds(rows=11))[1]) == 11
    with pytest.raises(QueryRefused, match="more than 10 rows"):
        readonly.query(url, sql, readonly.Bounds(rows=10))


def test_a_query_without_end_is_stopped(url: str) -> None:
    started = time.monotonic()
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    )
    with pytest.raises(QueryRefused, match="too long"):
        readonly.query(url, endless, readonly.Bounds(seconds=0.3))
    assert time.monotonic() - started < 10


def test_a_query_does_not_wait_for_a_writer(lab: Lab, url: str) -> None:
    with lab.database.transaction() as tx:
        tx.execute(text("INSERT INTO host (name) VALUES ('beta')"))
        assert readonly.query(url, "SELECT count(*) FROM host")[1] == [(0,)]


def test_a_database_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(SchemaMissing):
        readonly.query(f"sqlite:///{tmp_path / 'none.db'}", "SELECT 1")
    assert not list(tmp_path.iterdir())
    (tmp_path / "letter").write_text("Dear reader, " * 1000)
    with pytest.raises(DatabaseUnreachable, match="not a database"):
        readonly.query(f"sqlite:///{tmp_path / 'letter'}", "SELECT name FROM host")
    with pytest.raises(DatabaseUnreachable) as error:
        readonly.query("postgresql://me:secret@127.0.0.1:1/none", "SELECT 1")
    assert "secret" not in str(error.value)
    with pytest.raises(MalformedUrl):
        readonly.query("nonsense", "SELECT 1")


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_a_huge_value_is_refused(url: str) -> None:
    """A server of PostgreSQL keeps its own limit."""
    with pytest.raises(QueryRefused, match="too big"):
        readonly.query(url, "SELECT zeroblob(1000000000)")
