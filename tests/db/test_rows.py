"""Rows become records by the names of their columns."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from sqlalchemy import insert, select

from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_db.rows import fetch, fetch_first, record_of


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
