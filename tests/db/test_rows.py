"""Rows become records by the names of their columns."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    exc,
    insert,
    select,
)

from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_db.rows import MANY, fetch, fetch_first, insert_missing, insert_rows, record_of
from vkbench_db.schema.metadata import Moment

# a table with a column of every type that the schema has
THINGS = Table(
    "thing",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("number", BigInteger),
    Column("seconds", Float),
    Column("is_new", Boolean, nullable=False),
    Column("ended_at", Moment),
    Column("samples", LargeBinary),
    Column("words", JSON, nullable=False),
    Column("source", JSON(none_as_null=True)),
    Column("state", Text, nullable=False, default="queued"),
    Column("kind", Text, nullable=False, server_default="usual"),
)


@dataclass(frozen=True, kw_only=True)
class Named:
    """A host."""

    number: int
    name: str = "none"


@pytest.fixture
def hosts(database: Database) -> Database:
    """Two hosts, `b` before `a`."""
    with database.transaction() as tx:
        tx.execute(insert(schema.host), [{"name": "b"}, {"name": "a"}])
    return database


def test_columns_arrive_in_the_fields_of_their_names(hosts: Database) -> None:
    host = schema.host.c
    asked = select(host.name, host.id.label("number")).order_by(host.name)
    with hosts.reading() as tx:
        assert fetch(tx, asked, Named) == [Named(number=2, name="a"), Named(number=1, name="b")]
        assert fetch_first(tx, asked, Named) == Named(number=2, name="a")
        assert fetch_first(tx, asked.where(host.name == "c"), Named) is None


@pytest.mark.parametrize("columns", [("id",), ("name",)], ids=["unknown", "missing"])
def test_columns_that_do_not_fit_are_refused(hosts: Database, columns: tuple[str, ...]) -> None:
    asked = select(*(schema.host.c[name] for name in columns))
    with hosts.reading() as tx, pytest.raises(TypeError, match="argument"):
        fetch(tx, asked, Named)


def test_values_without_a_field_are_left_out_of_a_record() -> None:
    assert record_of({"number": 1, "key": "x"}, Named) == Named(number=1)
    with pytest.raises(TypeError, match="number"):
        record_of({"name": "a"}, Named)


@pytest.mark.parametrize("count", [1, 4 * MANY])
def test_rows_are_stored_as_they_are(database: Database, count: int) -> None:
    """Few or many, in any value that columns take; columns without one get their default."""
    texts = ["", 'ä\U0001f600\n\t"\\u0041\\', "NaN", "null"]
    numbers = [2**63 - 1, -(2**63), 0, None]
    seconds = [1e-300, 0.1, float("inf"), None, float("-inf"), 2.0**53 + 2]
    moments = [0.0, 1790000000.123456, 1.0, None, 0.000001]
    words = [{"why": None, "list": [1, "ä\n", True]}, [], "null", 0.1, False]
    sources = [None, *words]
    samples = [bytes(range(256)), b"", b"\\x00", None]
    rows = [
        {
            "id": at,
            "name": texts[at % len(texts)],
            "number": numbers[at % len(numbers)],
            "seconds": seconds[at % len(seconds)],
            "is_new": at % 2 == 0,
            "ended_at": moments[at % len(moments)],
            "samples": samples[at % len(samples)],
            "words": words[at % len(words)],
            "source": sources[at % len(sources)],
        }
        for at in range(count)
    ]
    with database.transaction() as tx:
        THINGS.create(tx)
        insert_rows(tx, THINGS, rows)
        insert_missing(tx, THINGS, [row | {"name": "later"} for row in rows])
        stored = tx.execute(select(THINGS).order_by(THINGS.c.id)).mappings().all()
    assert stored == [row | {"state": "queued", "kind": "usual"} for row in rows]


def test_a_row_whose_key_exists_is_refused(database: Database) -> None:
    hosts = [{"name": f"host {number}"} for number in range(MANY)]
    with database.transaction() as tx:
        insert_rows(tx, schema.host, hosts)
    with pytest.raises(exc.IntegrityError), database.transaction() as tx:
        insert_rows(tx, schema.host, [*({"name": f"other {at}"} for at in range(MANY)), hosts[0]])


def test_what_is_no_number_stays_so(database: Database) -> None:
    """PostgreSQL alone stores it: to SQLite it is NULL."""
    rows = [
        {"id": at, "name": "", "is_new": False, "words": [], "seconds": float("nan")}
        for at in range(MANY)
    ]
    with database.transaction() as tx:
        THINGS.create(tx)
        insert_rows(tx, THINGS, rows)
        stored = tx.execute(select(THINGS.c.seconds)).scalars().all()
    assert len(stored) == MANY
    assert all(number is None or number != number for number in stored)
    assert (None in stored) == (database.engine.dialect.name == "sqlite")
