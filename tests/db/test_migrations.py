"""The schema that the migrations make is the one that the code means."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Table, create_engine, insert, inspect, text

from views_page import documented_columns
from vkbench_db import migrations
from vkbench_db.ask.blank import blank
from vkbench_db.database import SCHEMA, Database, parse_url, upgrade
from vkbench_db.schema import TABLES, VIEWS, v_accuracy, v_regressions, v_results, v_series
from vkbench_db.work.bundles import load_bundle


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
        }


def test_bundles_of_older_versions_come_back_as_they_were(empty_url: str) -> None:
    blob = b"\x03\x02\x23\x07" * 50
    sha = hashlib.sha256(blob).hexdigest()
    engine = create_engine(parse_url(empty_url))
    with engine.begin() as tx:
        command.upgrade(migrations.config(tx), "0002")
        table = {name: TABLES.tables[name] for name in ("bundle", "blob", "bundle_blob")}
        row = {"sha": "b", "name": "old", "manifest": "{}", "created_at": 1.0}
        tx.execute(insert(table["bundle"]), [row])
        tx.execute(insert(table["blob"]), [{"sha": sha, "data": blob}])
        tx.execute(insert(table["bundle_blob"]), [{"bundle": "b", "blob": sha}])
    engine.dispose()
    upgrade(empty_url)
    with Database.open(empty_url) as database, database.reading() as tx:
        kept = load_bundle(tx, "b")
        assert kept
        assert kept.blobs == {sha: blob}


def test_what_older_versions_imported_unfinished_is_elsewhere(empty_url: str) -> None:
    engine = create_engine(parse_url(empty_url))
    with engine.begin() as tx:
        command.upgrade(migrations.config(tx), "0005")
        for statement in OLD_IMPORT:
            tx.execute(text(statement))
    engine.dispose()
    upgrade(empty_url)
    with Database.open(empty_url) as database, database.reading() as tx:
        found = tx.execute(text("SELECT run_id, state FROM job ORDER BY id")).all()
    assert [tuple(row) for row in found] == [(1, "queued"), (2, "elsewhere"), (2, "passed")]


def test_wrong_pairs_of_older_versions_say_which_arm(empty_url: str) -> None:
    reasons = {1: "new: NaN", 2: "old: a; b", 3: "old: NaN; new: NaN", 4: "old: NaN"}
    engine = create_engine(parse_url(empty_url))
    with engine.begin() as tx:
        command.upgrade(migrations.config(tx), "0008")
        for statement in OLD_IMPORT:
            tx.execute(text(statement))
        for number, reason in reasons.items():
            mode = "both" if number == 4 else "paired"
            for statement in _wrong_pair(number + 3, mode, reason):
                tx.execute(text(statement))
    engine.dispose()
    upgrade(empty_url)
    with Database.open(empty_url) as database, database.reading() as tx:
        found = tx.execute(text("SELECT wrong_arm FROM verdict ORDER BY job_id")).scalars()
        assert list(found) == ["new", "old", "both", "none"]


def test_memory_that_older_versions_told_is_a_column(empty_url: str) -> None:
    engine = create_engine(parse_url(empty_url))
    with engine.begin() as tx:
        command.upgrade(migrations.config(tx), "0017")
        for statement in OLD_IMPORT:
            tx.execute(text(statement))
        for job, told in ((1, '{"memory_bytes": 2500000000.0, "a": 1}'), (2, '{"a": 1}')):
            values = {"job": job, "telemetry": told}
            tx.execute(
                text(
                    "INSERT INTO attempt (job_id, token, outcome, reason, variant, kernel_sha,"
                    " environment, worker, seconds, telemetry, recorded_at)"
                    " VALUES (:job, 1, 'passed', '', '', '', '', '', 1, :telemetry, '2026-01-01')"
                ),
                values,
            )
    engine.dispose()
    upgrade(empty_url)
    with Database.open(empty_url) as database, database.reading() as tx:
        found = tx.execute(text("SELECT memory_bytes FROM attempt ORDER BY job_id")).scalars()
        assert list(found) == [2.5e9, None]


def _wrong_pair(job: int, mode: str, reason: str) -> tuple[str, ...]:
    return (
        "INSERT INTO job (id, run_id, position, device_id, case_id, mode, variant, bundle,"
        " limit_seconds, measure_seconds, noise, estimate_seconds, state, token, tries, dispatches,"
        f" cause, reason) VALUES ({job}, 1, {job}, 1, 1, '{mode}', 'auto', '', 1, 1, 1, 1,"
        f" 'wrong', 1, 0, 1, '', '{reason}')",
        "INSERT INTO attempt (job_id, token, outcome, reason, variant, kernel_sha, environment,"
        " worker, seconds, telemetry, recorded_at)"
        f" VALUES ({job}, 1, 'wrong', '{reason}', '', '', '', '', 1, '{{}}', '2026-01-01')",
        "INSERT INTO verdict (job_id, token, passed, reason, path, nmse_limit, max_abs_limit,"
        " compared, total, nonfinite, unwritten, guard_bytes, unrepeated, first_bad)"
        f" VALUES ({job}, 1, false, '{reason}', '', 1, 1, 1, 1, 0, 0, 0, 0, '')",
    )


OLD_IMPORT = (
    "INSERT INTO host (id, name) VALUES (1, 'h')",
    "INSERT INTO device (id, key, host_id, name, facts, paused, worker, bundle, environment,"
    " last_run) VALUES (1, 'k', 1, 'd', '{}', false, '', '', '', 0)",
    "INSERT INTO kernel_case (id, name, kernel, format, types, shape, params)"
    " VALUES (1, 'copy/f32/n1', 'copy', 'f32', '', 'n1', '')",
    *(
        "INSERT INTO run (id, uuid, created_at, user_name, label, tags, selection, mode, priority,"
        f" imported_at) VALUES ({id}, '{id}', {now}, '', '', '{{}}', '{{}}', 'both', 0, {imported})"
        for id, now, imported in ((1, "'2026-01-01'", "NULL"), (2, "'2026-01-01'", "'2026-01-02'"))
    ),
    *(
        "INSERT INTO job (id, run_id, position, device_id, case_id, mode, variant, bundle,"
        " limit_seconds, measure_seconds, noise, estimate_seconds, state, token, tries, dispatches,"
        f" cause, reason) VALUES ({id}, {run}, {id}, 1, 1, 'both', 'auto', '', 1, 1, 1, 1,"
        f" '{state}', 0, 0, 0, '', '')"
        for id, run, state in ((1, 1, "queued"), (2, 2, "queued"), (3, 2, "passed"))
    ),
)


def test_the_views_have_the_same_columns_and_no_other(database: Database) -> None:
    for name, view in VIEWS.tables.items():
        assert columns(database, name) == set(view.c.keys())


def test_a_blank_database_has_the_tables_and_views_of_a_made_one(database: Database) -> None:
    with blank() as unmade:
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
