"""Tells the alert channels what strangers left in Redis: someone without a key can write there."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime

from vkbench.settings import Settings
from vkbench_db.database import Database
from vkbench_scheduler.queue.oddities import ODDITIES
from vkbench_scheduler.watch.alerts import channels_of, heard_by_all
from vkbench_scheduler.watch.messages import Message


def step(database: Database, ours: Settings, now: float) -> None:
    """Tell what has not been told for a day; this process remembers that."""
    channels, found = channels_of(ours), ODDITIES.untold()
    if channels and found and heard_by_all(channels, message_of(found, now), now, keys=[*found]):
        ODDITIES.note_told(found)


def message_of(found: Mapping[str, str], now: float) -> Message:
    """The message about keys of Redis that held something strange."""
    at = datetime.fromtimestamp(now, UTC)
    digest = hashlib.sha256(f"{sorted(found)} {at:%Y-%m-%d}".encode()).hexdigest()[:32]
    title = "vkbench: someone who is no worker and no scheduler writes to Redis"
    lines = "\n".join(f"- `{place}`: {what}" for place, what in found.items())
    return Message(
        id=f"msg_{digest}",
        title=title,
        text=f"{title}.\n\n{lines}\n\nWork goes on. Change the passwords of Redis.",
        body={"type": "redis.strange", "timestamp": at.isoformat(), "data": {"found": dict(found)}},
    )
