"""Pauses that a scheduler made: which ones no alert has reported yet, and the end of trials."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, update

from vkbench_db import schema
from vkbench_db.rows import fetch, select_record
from vkbench_db.work.devices import SCHEDULER


@dataclass(frozen=True, kw_only=True)
class UntoldPause:
    """A device that a scheduler paused."""

    key: str
    name: str
    host: str
    reason: str
    at: float


def untold_pauses(tx: Connection, since: float) -> list[UntoldPause]:
    """Pauses by schedulers since a moment that the alert channels have not heard of."""
    device, host = schema.device.c, schema.host.c
    query = (
        select_record(UntoldPause, schema.device, reason=device.paused_reason, at=device.paused_at)
        .join(schema.host, host.id == device.host_id)
        .where(
            *(device.paused, device.paused_by == SCHEDULER, device.paused_at >= since),
            device.pause_told_at.is_(None),
        )
        .order_by(device.id)
    )
    return fetch(tx, query, UntoldPause)


def note_told(tx: Connection, pause: UntoldPause, now: float) -> None:
    """Store that every channel has heard of a pause, unless it is over."""
    device = schema.device.c
    same = (device.key == pause.key, device.paused_at == pause.at)
    tx.execute(update(schema.device).where(*same).values(pause_told_at=now))


def end_trial(tx: Connection, device: str) -> None:
    """A job has passed on a device that was resumed: it counts as well again."""
    tx.execute(update(schema.device).where(schema.device.c.key == device).values(on_trial=False))
