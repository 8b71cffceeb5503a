"""Canaries that results bring: stored once, and compared with the device's own history.

Its last canaries in the same environment say how it scatters, those that were off among them: a
device that stays changed is at home there after some fifty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log

from sqlalchemy import Connection, select

from vkbench.calibration import CANARY_AT, CANARY_SECONDS
from vkbench_db import schema
from vkbench_db.rows import insert_missing

DEVICE_OFF = "device off"  # flag of timings that came after a canary that was off
LEAST = 10  # canaries that a history has
KEPT = 100
MOST_SIGMAS = 3.0

Moment = tuple[int, float]  # device, when


@dataclass(frozen=True, kw_only=True, order=True)
class CanaryReading:
    """A canary that a result brings."""

    at: float
    device_id: int
    environment: str
    seconds: float

    @property
    def key(self) -> Moment:
        return self.device_id, self.at


def reading_in(
    device: int, environment: str, telemetry: Mapping[str, float]
) -> CanaryReading | None:
    """The canary in a result's telemetry, if it has one."""
    at, seconds = telemetry.get(CANARY_AT), telemetry.get(CANARY_SECONDS)
    if not (environment and at and seconds and seconds > 0):
        return None
    at = round(at, 3)  # as every engine keeps it
    return CanaryReading(device_id=device, environment=environment, at=at, seconds=seconds)


def note(tx: Connection, seen: Iterable[CanaryReading]) -> set[Moment]:
    """Store new canaries; return which of all are off."""
    readings = sorted(set(seen))
    known = _find_known_readings(tx, readings)
    for canary in readings:
        if canary.key not in known:
            known[canary.key] = _store(tx, canary)
    return {canary.key for canary in readings if known[canary.key]}


def deviation(seconds: float, history: Sequence[float]) -> float | None:
    """How many sigmas slower than its history a canary is; None if the history is too short."""
    if len(history) < LEAST:
        return None
    import numpy as np

    from vkbench_detection.statistics.noise import sigma_of

    logs = np.log(np.asarray(history))
    return float((log(seconds) - np.median(logs)) / sigma_of(logs))


def _find_known_readings(tx: Connection, readings: Sequence[CanaryReading]) -> dict[Moment, bool]:
    table = schema.canary.c
    rows = tx.execute(
        select(table.device_id, table.measured_at, table.is_off).where(
            table.device_id.in_({canary.device_id for canary in readings}),
            table.measured_at.in_({canary.at for canary in readings}),
        )
    )
    return {(row.device_id, row.measured_at): row.is_off for row in rows}


def _store(tx: Connection, canary: CanaryReading) -> bool:
    """Store a canary; return whether it is off."""
    sigmas = deviation(canary.seconds, _history(tx, canary))
    is_off = sigmas is not None and abs(sigmas) > MOST_SIGMAS
    row = {
        "device_id": canary.device_id,
        "environment": canary.environment,
        "measured_at": canary.at,
        "seconds": canary.seconds,
        "deviation": sigmas,
        "is_off": is_off,
    }
    insert_missing(tx, schema.canary, [row])
    return is_off


def _history(tx: Connection, canary: CanaryReading) -> list[float]:
    """Seconds of the canaries before it, the latest first."""
    table = schema.canary.c
    seconds = tx.execute(
        select(table.seconds)
        .where(
            table.device_id == canary.device_id,
            table.environment == canary.environment,
            table.measured_at < canary.at,
        )
        .order_by(table.measured_at.desc())
        .limit(KEPT)
    )
    return list(seconds.scalars())
