"""Tells the alert channels which devices the scheduler has paused, until each has heard of it."""

from __future__ import annotations

from vkbench.settings import Settings
from vkbench_db.database import Database
from vkbench_db.upkeep.pauses import UntoldPause, note_told, untold_pauses
from vkbench_scheduler.watch.alerts import channels_of, heard_by_all
from vkbench_scheduler.watch.messages import Message, write_message

PATIENCE_SECONDS = 86_400.0  # after which a channel that never heard is given up


def step(database: Database, settings: Settings, now: float) -> None:
    """Alert on new pauses; if one channel fails, all get the message again with the same id."""
    channels = channels_of(settings)
    if not channels:
        return
    with database.reading() as tx:
        waiting = untold_pauses(tx, now - PATIENCE_SECONDS)
    for pause in waiting:
        if heard_by_all(channels, message_of(pause), now, device=pause.key):
            with database.transaction() as tx:
                note_told(tx, pause, now)


def message_of(pause: UntoldPause) -> Message:
    """The message about one pause."""
    title = f"device {pause.name} of {pause.host} is paused: {pause.reason}"
    return write_message(
        f"{pause.key} {pause.at}",
        "device.paused",
        pause.at,
        title=title,
        text=f"vkbench: {title}. `vkbench resume {pause.key}` tries it again.",
        data={name: getattr(pause, name) for name in ("key", "name", "host", "reason")},
    )
