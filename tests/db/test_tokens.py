"""Tokens are known by their hash, expire, and can be revoked for good."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from vkbench.errors import UnknownName, UsageError
from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_db.upkeep import tokens
from vkbench_db.upkeep.tokens import Scope

NOW = 1_790_000_000.0


def made(database: Database, name: str = "ann", expires_at: float | None = None) -> str:
    with database.transaction() as tx:
        return tokens.add(tx, name=name, scopes=[Scope.TRIAGE], now=NOW, expires_at=expires_at)


def test_a_secret_is_recognised_and_not_stored(database: Database) -> None:
    secret = made(database)
    with database.reading() as tx:
        found = tokens.recognise(tx, secret, NOW)
        assert found
        assert (found.name, found.scopes) == ("ann", (Scope.TRIAGE,))
        assert secret.startswith(found.prefix)
        stored = tx.execute(select(schema.token)).one()
        assert secret not in str(tuple(stored))


@pytest.mark.parametrize("change", [" ", "x", "\0", "\ud800", "é"])
def test_another_secret_is_not(database: Database, change: str) -> None:
    secret = made(database)
    with database.reading() as tx:
        for other in (secret + change, secret[:-1], secret.upper(), change, ""):
            assert tokens.recognise(tx, other, NOW) is None


def test_a_token_expires(database: Database) -> None:
    secret = made(database, expires_at=NOW + 10)
    with database.reading() as tx:
        assert tokens.recognise(tx, secret, NOW + 9)
        assert tokens.recognise(tx, secret, NOW + 10) is None
        assert tokens.list_tokens(tx)[0].state(NOW + 10) == "expired"


@pytest.mark.parametrize("by", ["name", "prefix"])
def test_a_revoked_token_permits_nothing_and_keeps_its_name(database: Database, by: str) -> None:
    secret = made(database)
    with database.transaction() as tx:
        asked = "ann" if by == "name" else secret[: tokens.SHOWN]
        tokens.revoke(tx, asked, NOW + 1)
        tokens.revoke(tx, asked, NOW + 2)  # the first time stays
    with database.reading() as tx:
        assert tokens.recognise(tx, secret, NOW + 1) is None
        [token] = tokens.list_tokens(tx)
        assert (token.state(NOW + 3), token.revoked_at) == ("revoked", NOW + 1)
    with pytest.raises(UsageError, match="ann"):
        made(database)


@pytest.mark.parametrize("name", ["", " ", " a", "a\n", "\0"])
def test_a_name_is_a_word(database: Database, name: str) -> None:
    with pytest.raises(UsageError):
        made(database, name)


def test_an_unknown_token_names_the_nearest(database: Database) -> None:
    made(database)
    with pytest.raises(UnknownName, match="ann"), database.transaction() as tx:
        tokens.revoke(tx, "anna", NOW)


def test_the_last_use_is_noted_to_the_minute(database: Database) -> None:
    secret = made(database)
    for at, noted in ((NOW, NOW), (NOW + 59, NOW), (NOW + 60, NOW + 60)):
        with database.transaction() as tx:
            found = tokens.recognise(tx, secret, at)
            assert found
            tokens.note_use(tx, found, at)
        with database.reading() as tx:
            assert tokens.list_tokens(tx)[0].last_used_at == noted
