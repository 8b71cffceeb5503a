"""Why submitted jobs wait: no scheduler, no worker, or a paused device."""

from __future__ import annotations

from collections.abc import Sequence

from vkbench.words.units import count_of, span
from vkbench_db.upkeep.attendance import Attendance, Station


def absence(attendance: Attendance, now: float) -> str:
    """What is missing, and how to start it; "" if nothing is missing or nothing is left to do."""
    if not attendance.stations:
        return ""
    unserved = [station for station in attendance.stations if not station.is_served(now)]
    idle = [station for station in attendance.stations if station.paused]
    if not attendance.has_scheduler(now):
        return _no_scheduler(attendance, unserved, now)
    return "; ".join(
        filter(None, (_no_worker(attendance, unserved, now), _describe_pauses(idle, now)))
    )


def describe_pause(reason: str, by: str, at: float | None, now: float) -> str:
    """Words that a device is paused: by whom, since when and why, as far as that is known."""
    words = f"paused by {by}" if by else "paused"
    if at is not None:
        words += f" for {span(max(0.0, now - at))}"
    return f"{words} ({reason})" if reason else words


def _no_scheduler(attendance: Attendance, unserved: Sequence[Station], now: float) -> str:
    age = _describe_age(attendance.scheduler_seen, now, "is running")
    words = f"no scheduler {age}; start `vkbench scheduler`"
    # Only a scheduler records that workers are there: those of these hosts may be running.
    return (
        f"{words}, and `vkbench worker` on {_hosts(unserved)} unless it runs" if unserved else words
    )


def _no_worker(attendance: Attendance, unserved: Sequence[Station], now: float) -> str:
    if not unserved:
        return ""
    first = unserved[0]
    who = f"no worker of {first.name} {_describe_age(first.last_seen, now, 'was ever seen')}"
    if len(unserved) > 1:
        all_devices = count_of(len(attendance.stations), "device")
        who = f"no worker of {len(unserved)} of {all_devices} was seen lately"
    return f"{who}; start `vkbench worker` on {_hosts(unserved)}"


def _describe_pauses(stations: Sequence[Station], now: float) -> str:
    pauses = (
        (station, describe_pause(station.paused_reason, station.paused_by, station.paused_at, now))
        for station in stations
    )
    return "; ".join(
        f"{station.name} is {pause}: `vkbench resume {station.key}`" for station, pause in pauses
    )


def _hosts(stations: Sequence[Station]) -> str:
    return ", ".join(dict.fromkeys(station.host for station in stations))


def _describe_age(last: float | None, now: float, never: str) -> str:
    if last is None:
        return never
    return f"was seen for {span(now - last)}"
