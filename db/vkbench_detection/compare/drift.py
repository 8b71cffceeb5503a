"""A device's canary on both sides of a comparison: a change that no kernel explains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from sqlalchemy import Connection, func, select

from vkbench_db import schema
from vkbench_db.batches import batches
from vkbench_detection.compare.compared import Pair
from vkbench_detection.compare.sides import Side

AROUND = 3600.0  # seconds before and after the results in which canaries speak of them


@dataclass(frozen=True, kw_only=True)
class Drift:
    """How a device's canary differs between both sides."""

    device: str  # key
    name: str
    ratio: float  # of the medians, new over old: above 1 is slower
    count: int  # canaries of the side that has fewer


def drifts(tx: Connection, pairs: Sequence[Pair]) -> list[Drift]:
    """The drift of each device that has canaries around the timings of both sides."""
    old = _seconds(tx, _find_ends([(pair.work.old.key, pair.old) for pair in pairs]))
    new = _seconds(tx, _find_ends([(pair.work.new.key, pair.new) for pair in pairs]))
    device = schema.device.c
    rows = tx.execute(select(device.id, device.key, device.name).order_by(device.id))
    return [
        Drift(
            device=key,
            name=name,
            ratio=median(new[number]) / median(old[number]),
            count=min(len(old[number]), len(new[number])),
        )
        for number, key, name in rows
        if old.get(number) and new.get(number)
    ]


def _find_ends(sides: Sequence[tuple[str, Side]]) -> set[int]:
    """The first and the last job of each device and environment, and those of unknown ends."""
    unknown, ends = set[int](), dict[tuple[str, str | None], tuple[Side, Side]]()
    for device, side in sides:
        if side.ended is None:
            unknown.add(side.job)
            continue
        known = ends.get(key := (device, side.environment))
        if known is None:
            ends[key] = side, side
        elif side.ended < known[0].ended:
            ends[key] = side, known[1]
        elif side.ended > known[1].ended:
            ends[key] = known[0], side
    return unknown.union(side.job for both in ends.values() for side in both)


def _seconds(tx: Connection, jobs: Iterable[int]) -> dict[int, list[float]]:
    """Canaries of each device from the first of these jobs to the last, in their environments.

    Through another driver the canary, too, takes another time.
    """
    spans: dict[tuple[int, str], tuple[float, float]] = {}
    job, attempt, canary = schema.job.c, schema.attempt.c, schema.canary.c
    for page in batches(sorted(set(jobs))):
        rows = tx.execute(
            select(
                job.device_id,
                attempt.environment,
                func.min(job.finished_at),
                func.max(job.finished_at),
            )
            .join(schema.attempt, schema.is_settling)
            .where(job.id.in_(page))
            .group_by(job.device_id, attempt.environment)
        )
        for device, environment, first, last in rows:
            if first is not None and last is not None:
                known = spans.get((device, environment), (first, last))
                spans[device, environment] = min(known[0], first), max(known[1], last)
    seconds: dict[int, list[float]] = defaultdict(list)
    for (device, environment), (first, last) in spans.items():
        seconds[device] += tx.execute(
            select(canary.seconds).where(
                canary.device_id == device,
                canary.environment == environment,
                canary.measured_at.between(first - AROUND, last + AROUND),
            )
        ).scalars()
    return seconds
