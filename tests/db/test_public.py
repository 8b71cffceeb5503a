"""What strangers may query: the documented views, and nothing that reaches around them."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from sqlalchemy import text

from databases import PAGES, READER, Cluster, Lab, one_engine, url_as, with_roles
from vkbench_db import schema
from vkbench_db.ask.sql import readonly
from vkbench_db.ask.sql.view_columns import MEANINGS, strip_markdown
from vkbench_db.errors import QueryRefused

PUBLIC = readonly.Bounds(rows=50, seconds=5, is_public=True)
ALLOWED = [
    "SELECT * FROM v_results",
    "VALUES (1, 'a'), (2, 'b')",
    "SELECT count(*) FROM v_results",
    "SELECT 1 -- the last word",
    "WITH of AS (SELECT device_name, seconds FROM v_latest WHERE metric = 'hot')"
    " SELECT device_name, avg(seconds) FROM of GROUP BY device_name ORDER BY 2 DESC",
    "SELECT a.job, b.seconds FROM v_results a JOIN v_latest b ON a.job = b.job",
    "SELECT upper(kernel), round(cast(avg(gb_per_second) AS numeric), 1) FROM v_latest GROUP BY 1",
    "SELECT kernel || '/' || format FROM v_series WHERE kernel LIKE 'mul%'",
    "SELECT job, row_number() OVER (PARTITION BY device ORDER BY finished_at) FROM v_latest",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT i FROM n",
    "SELECT count(*) FROM (SELECT DISTINCT regression FROM v_regressions) AS found",
    "SELECT model, format, 100 * loss FROM v_accuracy WHERE subject = 'model'",
]
OF_POSTGRESQL = [
    "TABLE v_latest",
    "SELECT date_trunc('day', finished_at), percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds)"
    " FROM v_results WHERE finished_at > now() - interval '1 day' GROUP BY 1",
    "SELECT to_char(finished_at, 'YYYY') FROM v_results WHERE finished_at > '2020-01-01'",
    "SELECT finished_at::date, json_agg(job) FROM v_results GROUP BY 1",
]
REFUSED = [
    "SELECT * FROM job",
    "SELECT count(*) FROM alembic_version",
    "SELECT name FROM host, v_results",
    "SELECT * FROM alembic_version",
    "SELECT (SELECT name FROM host)",
    "SELECT * FROM v_results WHERE job IN (SELECT id FROM job)",
    "WITH v_results AS (SELECT * FROM alembic_version) SELECT * FROM v_results",
    "WITH v_latest AS (SELECT user_name FROM run) SELECT * FROM v_latest",
    "SELECT * FROM (SELECT name FROM schedule) AS v_series",
    "SELECT x.samples FROM measurement AS x",
    "SELECT * FROM v_results UNION ALL SELECT * FROM v_secret",
    "INSERT INTO host (name) VALUES ('x')",
    "SELECT 1; SELECT 2",
    # of SQLite
    "SELECT * FROM sqlite_master",
    "SELECT * FROM pragma_table_info('run')",
    "SELECT load_extension('x')",
    "PRAGMA database_list",
    # of PostgreSQL
    "SELECT * FROM pg_authid",
    "SELECT rolpassword FROM pg_catalog.pg_authid",
    "SELECT * FROM pg_stat_activity",
    "SELECT * FROM pg_stat_get_activity(NULL)",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT query_to_xml('SELECT * FROM run', true, true, '')",
    "SELECT table_to_xml('run', true, true, '')",
    "SELECT database_to_xml(true, true, '')",
    "SELECT current_setting('data_directory')",
    "SELECT set_config('role', 'none', false)",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_sleep(3)",
    "SELECT pg_ls_dir('.')",
    "SELECT lo_get(1)",
    "SELECT ts_stat('SELECT 1')",
    "SELECT * FROM v_results WHERE pg_backend_pid() = 1",
    "SELECT * FROM v_results TABLESAMPLE system(1)",
    "COPY (SELECT 1) TO PROGRAM 'true'",
]


@pytest.fixture(scope="module")
def template(cluster: Cluster, template: str) -> str:
    """A database that strangers read by a role."""
    return with_roles(cluster, template)


@pytest.fixture
def filled(lab: Lab) -> Lab:
    device = lab.add_device()
    lab.submit(device, 2)
    lab.settle(device)
    return lab


@pytest.fixture
def asked(filled: Lab, url: str) -> str:
    """The URL by which strangers ask."""
    return url_as(url, READER)


def test_views_answer(asked: str) -> None:
    is_postgresql = asked.startswith("postgresql")
    for sql in (*ALLOWED, *(OF_POSTGRESQL if is_postgresql else ())):
        readonly.query(asked, sql, PUBLIC)
    assert len(readonly.query(asked, "SELECT job FROM v_latest", PUBLIC)[1]) == 4


@pytest.mark.parametrize("sql", REFUSED)
def test_all_else_is_refused(asked: str, sql: str) -> None:
    with pytest.raises(QueryRefused):
        readonly.query(asked, sql, PUBLIC)


def test_a_function_of_the_database_owner_is_refused(
    filled: Lab, url: str, engine_name: str
) -> None:
    if engine_name == "sqlite":
        pytest.skip("SQLite has no functions of its own")
    with filled.database.transaction() as tx:
        tx.execute(text("CREATE FUNCTION peek() RETURNS text IMMUTABLE LANGUAGE sql"
                        " AS 'SELECT user_name FROM run'"))  # fmt: skip
    with pytest.raises(QueryRefused, match="function peek cannot be used"):
        readonly.query(url_as(url, READER), "SELECT peek()", PUBLIC)


@one_engine
def test_a_view_that_is_not_documented_is_refused(filled: Lab, url: str) -> None:
    with filled.database.transaction() as tx:
        tx.execute(text("CREATE VIEW v_secret AS SELECT user_name FROM run"))
    with pytest.raises(QueryRefused, match="only the views v_accuracy, v_latest"):
        readonly.query(url, "SELECT * FROM v_secret", PUBLIC)


NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n{}) SELECT {} FROM n"
_HUNDRED = "replace('aaaaaaaaaa', 'a', 'aaaaaaaaaa')"
_TEN_THOUSAND = f"replace({_HUNDRED}, 'a', {_HUNDRED})"
LONG = f"replace({_TEN_THOUSAND}, 'a', {_HUNDRED})"  # a million letters


def test_nothing_large_and_nothing_long(asked: str) -> None:
    began = time.monotonic()
    with pytest.raises(QueryRefused, match="too long"):
        readonly.query(asked, NUMBERS.format("", "count(*)"), replace(PUBLIC, seconds=0.3))
    assert time.monotonic() - began < 3
    patient = replace(PUBLIC, seconds=60)  # a busy machine takes longer than 5 s over 32 MB
    with pytest.raises(QueryRefused, match="more than 50 rows"):
        readonly.query(asked, NUMBERS.format(" WHERE i < 51", "i"), patient)
    with pytest.raises(QueryRefused, match="more than 32 MB"):
        readonly.query(asked, NUMBERS.format(" WHERE i < 49", LONG), patient)


def test_a_role_that_nothing_bounds_is_refused(cluster: Cluster, template: str) -> None:
    url = cluster.url(template)
    for role, said in (("postgres", "as a superuser"), (PAGES, "has no temp_file_limit")):
        with pytest.raises(QueryRefused, match=f"{said}: `vkbench db reader-role`"):
            readonly.query(url_as(url, role), "SELECT 1", PUBLIC)


def test_each_column_of_a_view_has_a_meaning() -> None:
    assert {name: tuple(view.columns.keys()) for name, view in schema.VIEWS.tables.items()} == {
        name: tuple(columns) for name, columns in MEANINGS.items()
    }
    told = {
        strip_markdown(meaning) for columns in MEANINGS.values() for meaning in columns.values()
    }
    assert "share of the fastest that the device could do, by its calibration; NULL where " in next(
        each for each in told if each.endswith("no roof applies")
    )
    assert not [each for each in told if "`" in each or "](" in each]
