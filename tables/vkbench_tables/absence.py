"""Why submitted jobs wait: no scheduler, no worker, or a paused device."""

from __future__ import annotations

from collections.abc import Sequence

from vkbench.words.units import count_of, span
from vkbench_db.upkeep.attendance import Attendance, Station


def absence(found: Attendance, now: float) -> str:
    """What is missing, and how to start it; "" if nothing is missing or nothing is left to do."""
    if not found.stations:
        return ""
    unserved = [each for each in found.stations if not each.is_served(now)]
    idle = [each for each in found.stations if each.paused]
    if not found.has_scheduler(now):
        return _no_scheduler(found, unserved, now)
    return "; ".join(filter(None, (_no_worker(found, unserved, now), _describe_pauses(idle, now))))


def paused(reason: str, by: str, at: float | None, now: float) -> str:
    """That a device is paused: by whom, since when and why, as far as that is known."""
    said = f"paused by {by}" if by else "paused"
    if at is not None:
        said += f" for {span(max(0.0, now - at))}"
    return f"{said} ({reason})" if reason else said


def _no_scheduler(found: Attendance, unserved: Sequence[Station], now: float) -> str:
    age = _describe_age(found.scheduler_seen, now, "is running")
    said = f"no scheduler {age}; start `vkbench scheduler`"
    # Only a scheduler records that workers are there: those of these hosts may be running.
    return (
        f"{said}, and `vkbench worker` on {_hosts(unserved)} unless it runs" if unserved else said
    )


def _no_worker(found: Attendance, unserved: Sequence[Station], now: float) -> str:
    if not unserved:
        return ""
    first = unserved[0]
    who = f"no worker of {first.name} {_describe_age(first.last_seen, now, 'was ever seen')}"
    if len(unserved) > 1:
        all_devices = count_of(len(found.stations), "device")
        who = f"no worker of {len(unserved)} of {all_devices} was seen lately"
    return f"{who}; start `vkbench worker` on {_hosts(unserved)}"


def _describe_pauses(stations: Sequence[Station], now: float) -> str:
    return "; ".join(
        f"{each.name} is {paused(each.paused_reason, each.paused_by, each.paused_at, now)}: "
        f"`vkbench resume {each.key}`"
        for each in stations
    )


def _hosts(stations: Sequence[Station]) -> str:
    return ", ".join(dict.fromkeys(each.host for each in stations))


def _describe_age(last: float | None, now: float, never: str) -> str:
    if last is None:
        return never
    return f"was seen for {span(now - last)}"
