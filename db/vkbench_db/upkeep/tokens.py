"""Every access token: made, listed, revoked, and recognised by the hash of its secret."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from sqlalchemy import Connection, Select, insert, select, update

from vkbench.errors import UnknownName, UsageError
from vkbench.words import names
from vkbench_db import schema
from vkbench_db.rows import record_of

SIGN = "vkb_"  # how every secret begins, so that people and scanners know one when they see it
SHOWN = len(SIGN) + 6  # characters of a secret that lists show
_RANDOM_BYTES = 32
_USE_SECONDS = 60.0  # how exactly the last use is noted


class Scope(StrEnum):
    """What a token permits."""

    READ = "read"  # nothing but to sign in: the pages are open to whoever reaches them
    SUBMIT = "submit"  # submit and cancel runs
    TRIAGE = "triage"  # acknowledge, close, reopen and annotate regressions
    SCHEDULE = "schedule"  # add schedules


@dataclass(frozen=True, kw_only=True)
class Token:
    """What is known of a token, its secret apart."""

    id: int
    name: str
    prefix: str
    scopes: tuple[Scope, ...]
    created_at: float
    expires_at: float | None
    revoked_at: float | None
    last_used_at: float | None

    def state(self, now: float) -> str:
        """valid | expired | revoked"""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "valid"


def add(
    tx: Connection,
    *,
    name: str,
    scopes: Collection[Scope],
    now: float,
    expires_at: float | None = None,
) -> str:
    """Store a new token and return its secret, which nothing can show again."""
    _check(tx, name, scopes)
    secret = SIGN + secrets.token_urlsafe(_RANDOM_BYTES)
    row = {
        "name": name,
        "prefix": secret[:SHOWN],
        "sha256": _hash(secret),
        "scopes": [scope.value for scope in Scope if scope in scopes],
        "created_at": now,
        "expires_at": expires_at,
    }
    tx.execute(insert(schema.token), [row])
    return secret


def list_tokens(tx: Connection) -> list[Token]:
    """All tokens, the newest first, revoked ones too."""
    table = schema.token.c
    return _tokens(tx, select(schema.token).order_by(table.created_at.desc(), table.id.desc()))


def revoke(tx: Connection, name: str, now: float) -> Token:
    """Make a token, by its name or the beginning of its secret, permit nothing from now on."""
    known = list_tokens(tx)
    matches = [
        known_token for known_token in known if name in (known_token.name, known_token.prefix)
    ]
    if not matches:
        raise UnknownName(
            "token", name, names.nearest(name, [known_token.name for known_token in known])
        )
    [token] = matches[:1]
    table = schema.token.c
    still = (table.id == token.id, table.revoked_at.is_(None))
    tx.execute(update(schema.token).where(*still).values(revoked_at=now))
    return token


def recognise(tx: Connection, secret: str, now: float) -> Token | None:
    """The valid token of a secret; None if there is none."""
    # A lookup by hash leaks nothing by its time: who can choose hashes near a stored one has
    # inverted SHA-256.
    tokens = _tokens(tx, select(schema.token).where(schema.token.c.sha256 == _hash(secret)))
    return tokens[0] if tokens and tokens[0].state(now) == "valid" else None


def note_use(tx: Connection, token: Token, now: float) -> None:
    """Store that a token was used, unless that was said within the last minute."""
    if token.last_used_at is None or now - token.last_used_at >= _USE_SECONDS:
        where = schema.token.c.id == token.id
        tx.execute(update(schema.token).where(where).values(last_used_at=now))


def _check(tx: Connection, name: str, scopes: Collection[Scope]) -> None:
    if not name.isprintable() or not name.strip() or name != name.strip():
        raise UsageError(f"{name!r} is no name for a token: give it a word")
    if not scopes:
        raise UsageError(f"a token permits something: {', '.join(Scope)}")
    table = schema.token.c
    if tx.execute(select(table.id).where(table.name == name)).first():
        raise UsageError(
            f"there is or was a token '{name}', and what it did bears this name: choose another"
        )


def _tokens(tx: Connection, query: Select[*tuple[object, ...]]) -> list[Token]:
    return [
        record_of({**row, "scopes": tuple(map(Scope, row["scopes"]))}, Token)
        for row in tx.execute(query).mappings()
    ]


def _hash(secret: str) -> str:
    # Fast on purpose: a secret has 256 random bits, which no dictionary holds.
    return sha256(secret.encode(errors="surrogatepass")).hexdigest()
