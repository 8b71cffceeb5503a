"""Devices as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkbench.job import JobState
from vkbench_tables.table import Cell, Column, Rank, ValueKind

if TYPE_CHECKING:
    from vkbench.device import DeviceFacts
    from vkbench_db.ask.devices.lately import Lately, Steadiness
    from vkbench_db.ask.queries import DeviceRow

FAILING = 0.1  # of a device's last jobs: more, and the device is not well

COLUMNS = (
    Column(key="key", heading="key", rank=Rank.KEY),
    Column(key="host", heading="host"),
    Column(key="index", heading="index", kind=ValueKind.COUNT, rank=Rank.MINOR),
    Column(key="name", heading="device", rank=Rank.KEY),
    Column(key="type", heading="type", rank=Rank.MINOR),
    Column(key="driver", heading="driver"),
    Column(key="driver_version", heading="version", rank=Rank.MINOR),
    Column(key="state", heading="state", rank=Rank.KEY),
    Column(key="paused_reason", heading="paused because", prose=True),
    Column(key="paused_by", heading="paused by", rank=Rank.MINOR),
    Column(key="paused_at", heading="paused at", kind=ValueKind.TIME, rank=Rank.MINOR),
    Column(key="canary", heading="canary"),
    Column(key="canary_sigmas", heading="canary's sigmas", kind=ValueKind.NUMBER, hidden=True),
    Column(key="canary_at", heading="canary at", kind=ValueKind.TIME, hidden=True),
    Column(key="queued", heading="queued", kind=ValueKind.COUNT),
    Column(key="in_flight", heading="in flight", kind=ValueKind.COUNT),
    Column(key="elsewhere", heading="elsewhere", kind=ValueKind.COUNT),
    Column(key="drivers", heading="drivers added", rank=Rank.MINOR),
    Column(key="driver_copies", heading="copies of its own driver", rank=Rank.MINOR),
    Column(key="no_copy", heading="why it has no copy", prose=True, rank=Rank.MINOR),
    Column(key="memory_bytes", heading="memory", kind=ValueKind.BYTES, rank=Rank.MINOR),
    Column(key="subgroup_size", heading="subgroup", kind=ValueKind.COUNT, rank=Rank.MINOR),
    Column(key="last_seen", heading="last seen", kind=ValueKind.TIME),
    Column(key="worker", heading="worker", hidden=True),
    Column(key="uuid", heading="UUID", hidden=True),
    Column(key="features", heading="features", hidden=True),
    Column(key="limits", heading="limits", hidden=True),
    Column(key="bundle", heading="packaged bundle", hidden=True),
)


def facts_row(facts: DeviceFacts) -> dict[str, Cell]:
    """What a device reports of itself."""
    return {**vars(facts), "limits": dict(facts.limits)}


def device_row(row: DeviceRow, canary: Steadiness | None, now: float) -> dict[str, Cell]:
    """A device of the database, with its canary."""
    return {
        **facts_row(row.facts),
        **vars(row),
        "state": state_of(row, now),
        "canary": canary.word if canary else "",
        "canary_sigmas": canary and canary.deviation,
        "canary_at": canary and canary.at,
        "elsewhere": row.elsewhere or None,
        "drivers": ", ".join(row.drivers),
        "driver_copies": ", ".join(row.driver_copies),
    }


def state_of(row: DeviceRow, now: float) -> str:
    """paused, elsewhere, online or offline."""
    from vkbench_db.upkeep.attendance import LATELY_SECONDS

    if row.paused:
        return "paused"
    if row.last_seen is None:  # nothing opened it here: an import brought it
        return JobState.ELSEWHERE
    is_served = row.worker and now - row.last_seen <= LATELY_SECONDS
    return "online" if is_served else "offline"


def health(canary: Steadiness | None, did: Lately) -> str:
    """The word `well`, or a device's trouble; "" if nothing is known of it."""
    if canary and canary.is_off:
        return "off: the canary is not as fast as it was"
    if did.failed > FAILING * did.ended:
        return f"failing: {did.failed} of its last {did.ended} jobs"
    return "well" if canary or did.ended else ""
