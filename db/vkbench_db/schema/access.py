"""Tokens: what the pages and the API ask for before they write."""

from __future__ import annotations

from sqlalchemy import JSON, Column, Named, Table, Text

from vkbench_db.schema.metadata import TABLES, Columns
from vkbench_db.schema.moment import Moment


class TokenColumns(Columns):
    """A secret that permits some ways of writing; the database knows its hash alone.

    No row is ever deleted, and names are unique, so that the name of a token beside a run or an
    event means one token for good.
    """

    id: Named[int] = Column(primary_key=True)
    name: Named[str] = Column(Text, unique=True)
    prefix: Named[str] = Column(Text, unique=True)  # the secret's beginning, which people may see
    sha256: Named[str] = Column(Text, unique=True)  # of the whole secret
    scopes: Named[list[str]] = Column(JSON())  # of vkbench_db.upkeep.tokens.Scope
    created_at: Named[float] = Column(Moment)
    expires_at: Named[float | None] = Column(Moment)
    revoked_at: Named[float | None] = Column(Moment)
    last_used_at: Named[float | None] = Column(Moment)  # to the minute


token = Table("token", TABLES, TokenColumns)
