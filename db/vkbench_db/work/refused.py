"""Results that could not be stored: set aside with the reason, so that they hold up no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, delete, func, insert, select

from vkbench_db import schema

MOST_KEPT = 1000  # the newest; a worker could send any number
MOST_BODY = 2**16  # bytes of each


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A message that was no result, or one that the database did not take."""

    job_id: int | None  # None: it named no job
    reason: str
    body: bytes  # the message


def set_aside(tx: Connection, refusals: Sequence[Refusal], now: float) -> None:
    """Store messages that are not stored as results; the oldest of too many are deleted."""
    if not refusals:
        return
    rows = [
        asdict(refusal)
        | {
            "received_at": now,
            "job_id": refusal.job_id if 0 < (refusal.job_id or 0) < 2**63 else None,
            "reason": refusal.reason.replace("\0", "")[:MOST_BODY],
            "body": refusal.body[:MOST_BODY],
        }
        for refusal in refusals
    ]
    tx.execute(insert(schema.refused), rows)
    refused = schema.refused.c
    newest = select(refused.id).order_by(refused.id.desc()).limit(1).offset(MOST_KEPT)
    tx.execute(delete(schema.refused).where(refused.id <= newest.scalar_subquery()))


def count_refused(tx: Connection) -> int:
    """How many messages are set aside."""
    return tx.execute(select(func.count()).select_from(schema.refused)).scalar_one()
