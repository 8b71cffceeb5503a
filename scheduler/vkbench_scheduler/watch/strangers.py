"""Alerts on junk in Redis, and on devices whose keys differ from the scheduler's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from vkbench.settings import Settings
from vkbench_db.database import Database
from vkbench_scheduler.queue.oddities import ODDITIES, OTHER_KEYS, Oddities
from vkbench_scheduler.watch.alerts import channels_of, heard_by_all
from vkbench_scheduler.watch.messages import Message, write_message


def step(database: Database, settings: Settings, now: float) -> None:
    """Alert once a day on strangers in Redis and other keys; this process remembers when."""
    _tell(ODDITIES, message_of, settings, now)
    _tell(OTHER_KEYS, message_of_keys, settings, now)


def message_of(places: Mapping[str, str], now: float) -> Message:
    """The message about keys of Redis that held something strange."""
    title = "someone who is no worker and no scheduler writes to Redis"
    advice = "Work goes on. Change the passwords of Redis."
    return _message("redis.strange", title, places, advice, now)


def message_of_keys(places: Mapping[str, str], now: float) -> Message:
    """The message about devices whose workers have other keys than the scheduler."""
    title = "devices wait, because their hosts have other keys"
    advice = (
        "Their jobs wait, and none fails. Copy the keys to these hosts, and restart their workers. "
        "If nobody changes the keys, someone who has none writes to Redis."
    )
    return _message("keys.differ", title, places, advice, now)


def _tell(
    oddities: Oddities,
    message: Callable[[Mapping[str, str], float], Message],
    settings: Settings,
    now: float,
) -> None:
    channels, places = channels_of(settings), oddities.list_untold()
    if channels and places and heard_by_all(channels, message(places, now), now, keys=[*places]):
        oddities.note_told(places)


def _message(kind: str, title: str, places: Mapping[str, str], advice: str, now: float) -> Message:
    day = datetime.fromtimestamp(now, UTC).date()
    lines = "\n".join(f"- `{place}`: {what}" for place, what in places.items())
    return write_message(
        f"{kind} {sorted(places)} {day}",
        kind,
        now,
        title=title,
        text=f"vkbench: {title}.\n\n{lines}\n\n{advice}",
        data={"found": dict(places)},
    )
