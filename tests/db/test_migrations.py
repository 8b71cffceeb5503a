"""The schema that the migrations make is the one that the code means, and that 0021 already had.

`recorded/databases` holds databases that the last commit with the 20 migrations before the first
release made: dumps of a demonstration that was cut down, with rows in every table.
"""

from __future__ import annotations

import gzip
import os
import re
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Table, inspect, make_url, select, text

from databases import Lab
from postgres_server import program
from views_page import documented_columns
from vkbench_db import migrations
from vkbench_db.blank import blank_database
from vkbench_db.database import SCHEMA, Database, upgrade
from vkbench_db.schema import TABLES, VIEWS, v_accuracy, v_regressions, v_results, v_series
from vkbench_db.transfer.exchange import export_run
from vkbench_detection.regress.inbox import regressions
from vkbench_detection.steps import detect

NEWER = ("build", "forge_issue", "statistic")  # tables that 0021 had not
RECORDED = Path(__file__).parents[1] / "planted/recorded/databases"


def test_tables_and_migrations_agree(database: Database) -> None:
    with database.reading() as tx:
        context = MigrationContext.configure(tx, opts={"compare_type": True})
        assert compare_metadata(context, TABLES) == []


def test_the_version_that_open_wants_is_the_newest(database: Database) -> None:
    with database.reading() as tx:
        script = ScriptDirectory.from_config(migrations.config(tx))
        assert script.get_heads() == [SCHEMA]
        assert MigrationContext.configure(tx).get_current_revision() == SCHEMA


def test_upgrade_runs_from_anywhere_and_twice(
    empty_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    upgrade(empty_url)
    upgrade(empty_url)
    assert os.listdir(folder) == []
    with Database.open(empty_url) as database, database.reading() as tx:
        assert set(inspect(tx).get_view_names()) == {
            *("v_results", "v_latest", "v_series", "v_regressions", "v_accuracy"),
            "v_statistics",
        }


def test_a_database_from_before_the_release_is_used_on(
    engine_name: str, empty_url: str, second_url: str
) -> None:
    restore(engine_name, empty_url)
    upgrade(empty_url)
    upgrade(second_url)
    assert dumped_schema(engine_name, empty_url) == dumped_schema(engine_name, second_url)
    with Database.open(empty_url) as database:
        with database.reading() as tx:
            for table in TABLES.sorted_tables:
                if table.name in NEWER:
                    continue
                assert tx.execute(select(table)).first(), table.name
            titles = [regression.title for regression in regressions(tx)]
            assert titles == [
                "wrong since bundle 5fcd3d42b21e",
                "slower since driver_info 24.3.1, driver_version 24.3.1",
            ]
            run = tx.execute(text("SELECT max(id) FROM run WHERE kind = 'work'")).scalar_one()
            assert len(list(export_run(tx, run))) > 1
        lab = Lab(database)
        device = lab.add_device()
        lab.submit(device, ["add/f32/h1_w1"])
        lab.settle(device)
        detect(database, lab.now)


def restore(engine_name: str, url: str) -> None:
    """Make of an empty database the one that was recorded."""
    dump = gzip.decompress((RECORDED / f"0021-{engine_name}.sql.gz").read_bytes()).decode()
    if engine_name == "sqlite":
        with closing(sqlite3.connect(str(make_url(url).database))) as connection:
            connection.executescript(dump)
        return
    plain = "\n".join(
        line for line in dump.splitlines() if not line.startswith(("\\", "SET transaction_timeout"))
    )
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(plain.encode())


def dumped_schema(engine_name: str, url: str) -> set[str]:
    """All that a database declares: its statements, or those of pg_dump, in no order."""
    if engine_name == "sqlite":
        with closing(sqlite3.connect(str(make_url(url).database))) as connection:
            statements = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
            return {_plain(statement) for (statement,) in statements}
    options = ["--schema-only", "--no-owner", "--no-privileges"]
    command = [str(program("pg_dump")), *options, url]
    dumped = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = "\n".join(line for line in dumped.splitlines() if not line.startswith("\\"))
    return set(lines.split("\n\n\n"))


def _plain(statement: str) -> str:
    """A statement without what SQLite ignores: spaces, quotes, names and order of constraints."""
    words = " ".join(statement.replace('"', "").replace("DEFAULT ('')", "DEFAULT ''").split())
    words = re.sub(r" ?([(),]) ?", r"\1", words)
    words = re.sub(r"CONSTRAINT \w+ (?=FOREIGN KEY)", "", words)
    columns, *constraints = re.split(r",(?=CONSTRAINT |FOREIGN KEY)", words.removesuffix(")"))
    return ",".join([columns, *sorted(constraints)])


def test_the_views_have_the_same_columns_and_no_other(database: Database) -> None:
    for name, view in VIEWS.tables.items():
        assert columns(database, name) == set(view.c.keys())


def test_a_blank_database_has_the_tables_and_views_of_a_made_one(database: Database) -> None:
    with blank_database() as unmade:
        assert shape(unmade) == shape(database)


def shape(database: Database) -> dict[str, set[str]]:
    with database.reading() as tx:
        seen = inspect(tx)
        names = {*seen.get_table_names(), *seen.get_view_names()} - {"alembic_version"}
    return {name: columns(database, name) for name in names}


def columns(database: Database, table: str) -> set[str]:
    with database.reading() as tx:
        return {column["name"] for column in inspect(tx).get_columns(table)}


def test_partial_indexes_are_partial(database: Database) -> None:
    """Alembic does not compare the conditions of indexes."""
    with database.reading() as tx:
        made = {
            (table, index["name"]): index.get("dialect_options", {})
            for table in TABLES.tables
            for index in inspect(tx).get_indexes(table)
        }
    declared = [index for table in TABLES.tables.values() for index in table.indexes]
    assert any("where" in index.info for index in declared)
    for index in declared:
        assert index.table is not None
        options = made[index.table.name, index.name]
        [found] = [text for option, text in options.items() if option.endswith("_where")] or [""]
        plain = str(found).replace('"', "").replace("::text", "")
        assert plain.strip("()") == index.info.get("where", "")


@pytest.mark.parametrize(
    ("heading", "view"),
    [
        ("# ", v_results),
        ("## v_series", v_series),
        ("## v_regressions", v_regressions),
        ("## v_accuracy", v_accuracy),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_every_public_column_is_documented(heading: str, view: Table) -> None:
    page = Path(__file__).parents[2] / "docs" / "views.md"
    assert documented_columns(page, heading) == sorted(view.c.keys())
