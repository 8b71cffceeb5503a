"""What environments say: the driver, the system and the settings that a result was made with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, select

from vkbench_db import schema
from vkbench_db.batches import batches


def read_facts(tx: Connection, hashes: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """The facts of environments, by hash."""
    environment = schema.environment.c
    facts: dict[str, Mapping[str, Any]] = {}
    for page in batches(sorted(hashes)):
        query = select(environment.hash, environment.facts).where(environment.hash.in_(page))
        facts |= {sha: stored or {} for sha, stored in tx.execute(query)}
    return facts
