"""PostgreSQL is reached by URLs of several servers, and left when it takes no writes any more."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import Connection, text

from vkbench_db.database import Database, parse_url
from vkbench_db.errors import DatabaseUnreachable, MalformedUrl
from vkbench_db.postgresql import CONNECT_SECONDS, CONNECT_SECONDS_EACH, connect_seconds, place

only_postgresql = pytest.mark.parametrize("engine_name", ["postgresql"])
SECRET = "Zq7"


@pytest.mark.parametrize(
    ("url", "hosts", "ports"),
    [
        ("postgresql://vk@a:5433,b:5434/n", "a,b", "5433,5434"),
        ("postgresql://vk:p,w@a,b:5434/n?sslmode=require", "a,b", ",5434"),
        ("postgres://a,b/n", "a,b", None),
        ("postgresql+psycopg://vk@[::1]:5433,10.0.0.1/n", "::1,10.0.0.1", "5433,"),
        ("postgresql:///n?host=a:5433&host=b", "a,b", "5433,"),
        ("postgresql:///n?host=a,b", "a,b", None),
    ],
)
def test_several_servers_mean_the_one_that_takes_writes(
    url: str, hosts: str, ports: str | None
) -> None:
    parsed = parse_url(url)
    assert parsed.query["host"] == hosts
    assert parsed.query.get("port") == ports
    assert parsed.query["target_session_attrs"] == "read-write"
    assert parsed.database == "n"
    assert connect_seconds(parsed) == CONNECT_SECONDS_EACH


def test_a_url_says_itself_which_server_it_means() -> None:
    asked = "postgresql://vk@a,b/n?target_session_attrs=any"
    assert parse_url(asked).query["target_session_attrs"] == "any"
    one = parse_url("postgresql://vk@a:5433/n")
    assert (one.host, one.port, dict(one.query)) == ("a", 5433, {})
    assert connect_seconds(one) == CONNECT_SECONDS


def test_messages_name_the_servers_and_no_password() -> None:
    parsed = parse_url(f"postgresql://vk:{SECRET}@a:5433,b/n?sslpassword={SECRET}")
    assert place(parsed).endswith("://vk:***@/n at a:5433,b")
    with pytest.raises(MalformedUrl) as error:
        parse_url(f"postgresql://vk:{SECRET}@a:port,b/n")
    assert SECRET not in str(error.value)


@only_postgresql
def test_a_session_that_takes_no_writes_any_more_is_not_kept(url: str) -> None:
    """As when the server behind a name was made a standby, or its connections lead elsewhere."""
    with Database.open(url) as database:
        with database.transaction() as tx:
            make_read_only(tx)
        with pytest.raises(DatabaseUnreachable) as error, database.transaction() as tx:
            write(tx)
        assert "read-only transaction" in str(error.value)
        with database.transaction() as tx:
            write(tx)


@only_postgresql
@pytest.mark.parametrize("act", [lambda database: read_pid(database), lambda database: None])
def test_whoever_wants_writes_gets_no_session_without(
    url: str, act: Callable[[Database], object]
) -> None:
    with Database.open(f"{url}&target_session_attrs=read-write") as database:
        with database.transaction() as tx:
            make_read_only(tx)
            before = tx.execute(text("SELECT pg_backend_pid()")).scalar()
        act(database)
        with database.transaction() as tx:
            write(tx)
        assert read_pid(database) != before


def make_read_only(tx: Connection) -> None:
    tx.execute(text("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"))


def write(tx: Connection) -> None:
    tx.execute(text("INSERT INTO host (name) VALUES ('h')"))


def read_pid(database: Database) -> object:
    with database.reading() as tx:
        return tx.execute(text("SELECT pg_backend_pid()")).scalar()
