"""Alerts on junk in Redis, and on devices whose keys differ from the scheduler's."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from vkbench.settings import Settings
from vkbench_db.database import Database
from vkbench_scheduler.queue.oddities import ODDITIES, OTHER_KEYS, Oddities
from vkbench_scheduler.watch.alerts import channels_of, heard_by_all
from vkbench_scheduler.watch.messages import Message


def step(database: Database, ours: Settings, now: float) -> None:
    """Tell what has not been told for a day; this process remembers that."""
    _tell(ODDITIES, message_of, ours, now)
    _tell(OTHER_KEYS, message_of_keys, ours, now)


def message_of(found: Mapping[str, str], now: float) -> Message:
    """The message about keys of Redis that held something strange."""
    title = "vkbench: someone who is no worker and no scheduler writes to Redis"
    advice = "Work goes on. Change the passwords of Redis."
    return _message("redis.strange", title, found, advice, now)


def message_of_keys(found: Mapping[str, str], now: float) -> Message:
    """The message about devices whose workers have other keys than the scheduler."""
    title = "vkbench: devices wait, because their hosts have other keys"
    advice = (
        "Their jobs wait, and none fails. Copy the keys to these hosts, and restart their workers. "
        "If nobody changes the keys, someone who has none writes to Redis."
    )
    return _message("keys.differ", title, found, advice, now)


def _tell(
    oddities: Oddities,
    message: Callable[[Mapping[str, str], float], Message],
    ours: Settings,
    now: float,
) -> None:
    channels, found = channels_of(ours), oddities.list_untold()
    if channels and found and heard_by_all(channels, message(found, now), now, keys=[*found]):
        oddities.note_told(found)


def _message(kind: str, title: str, found: Mapping[str, str], advice: str, now: float) -> Message:
    at = datetime.fromtimestamp(now, UTC)
    digest = hashlib.sha256(f"{kind} {sorted(found)} {at:%Y-%m-%d}".encode()).hexdigest()[:32]
    lines = "\n".join(f"- `{place}`: {what}" for place, what in found.items())
    return Message(
        id=f"msg_{digest}",
        title=title,
        text=f"{title}.\n\n{lines}\n\n{advice}",
        body={"type": kind, "timestamp": at.isoformat(), "data": {"found": dict(found)}},
    )
