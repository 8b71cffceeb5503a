"""The role for people who query: it reads the views by every way, and reaches nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import URL, make_url

from databases import Cluster
from vkbench.errors import UsageError
from vkbench_db import schema
from vkbench_db.ask.sql import readonly
from vkbench_db.database import Database, try_lead, watch_alone
from vkbench_db.errors import QueryRefused
from vkbench_db.upkeep.roles import give_roles, reader_role_sql

NAME = 'a"reader"\'s'
REFUSED = (
    "SELECT pg_terminate_backend(1)",
    "SELECT pg_cancel_backend(1)",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_try_advisory_xact_lock_shared(1, 2)",
    "SELECT lo_from_bytea(0, 'x')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT pg_notify('a', 'b')",
    "SELECT set_config('statement_timeout', '0', false)",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('.')",
    "SELECT * FROM job",
    "SELECT * FROM token",
    "SELECT * FROM pg_authid",
    "SELECT * FROM pg_shadow",
)


@pytest.fixture(params=["postgresql"])
def engine_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def reader(url: str, cluster: Cluster) -> Iterator[str]:
    """The URL of the database for the role."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as admin:
        for _ in range(2):  # it may be run again
            admin.execute(reader_role_sql(NAME).encode())
    yield _as(url, NAME).render_as_string(hide_password=False)
    with psycopg.connect(url, autocommit=True) as admin:
        quoted = NAME.replace('"', '""')
        admin.execute(f'DROP OWNED BY "{quoted}"; DROP ROLE "{quoted}"'.encode())


def _as(url: str, user: str) -> URL:
    parsed = make_url(url)
    query = {name: value for name, value in parsed.query.items() if name != "user"}
    return parsed.set(query={**query, "user": user})


@pytest.mark.parametrize("bounds", [readonly.USUAL, readonly.Bounds(is_public=True)])
def test_queries_of_commands_and_of_pages_work(
    reader: str, database: Database, bounds: readonly.Bounds
) -> None:
    for view in ("v_results", "v_latest", "v_series", "v_regressions", "v_accuracy"):
        assert readonly.query(reader, f"SELECT count(*) FROM {view}", bounds)[1] == [(0,)]


@pytest.mark.parametrize("sql", REFUSED)
def test_nothing_else_is_reached(reader: str, sql: str) -> None:
    with pytest.raises(QueryRefused, match=r"permission denied|must be"):
        readonly.query(reader, sql)


def test_services_go_on(reader: str, database: Database) -> None:
    with database.transaction() as tx:
        assert try_lead(tx)
        watch_alone(tx)


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 64, "a$do$b", "a\\b"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no name for a role"):
        reader_role_sql(name)


def test_roles_are_made_with_their_passwords(url: str, cluster: Cluster) -> None:
    """As `vkbench db upgrade --pages FILE --reader FILE` does, again after each upgrade."""
    import psycopg

    pages, reader = (
        make_url(url).set(username=name, password="it's").render_as_string(hide_password=False)
        for name in ("pages", "asks")
    )
    for _ in range(2):
        give_roles(url, pages=pages, reader=reader)
    with psycopg.connect(url) as admin:
        made = admin.execute(
            "SELECT rolname, rolsuper, rolpassword LIKE 'SCRAM%' FROM pg_authid"
            " WHERE rolname IN ('pages', 'asks')"
        ).fetchall()
    assert set(made) == {("pages", False, True), ("asks", False, True)}
    cluster.execute("DROP OWNED BY asks")


def test_the_pages_change_what_people_do_there_alone(url: str) -> None:
    import psycopg

    give_roles(url, pages=str(make_url(url).set(username="pages")))
    written = {"run", "job", "kernel_case", "schedule", "regression_event"}
    with psycopg.connect(str(_as(url, "pages")), autocommit=True) as pages:
        pages.execute("UPDATE token SET last_used_at = now()")
        refused = ["UPDATE token SET scopes = '[]'", "CREATE TABLE evil (x integer)"]
        for name in schema.TABLES.tables:
            refused += [f"DELETE FROM {name}", f"TRUNCATE {name}"]
            refused += [f"INSERT INTO {name} DEFAULT VALUES"] if name not in written else []
        for statement in refused:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                pages.execute(statement.encode())
