"""How a device's canary did on both sides of a comparison: what changed without any kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from sqlalchemy import Connection, func, select

from vkbench_db.batches import batches
from vkbench_db.comparison import Pair
from vkbench_db.views import CANARY, DEVICE, JOB

AROUND = 3600.0  # seconds before and after the results in which canaries speak of them


@dataclass(frozen=True, kw_only=True)
class Drift:
    """One device's."""

    device: str  # key
    name: str
    ratio: float  # of the medians, new over old: above 1 is slower
    count: int  # canaries of the side that has fewer


def drifts(tx: Connection, pairs: Sequence[Pair]) -> list[Drift]:
    """Of all devices that have canaries around both sides of their timings."""
    old = _seconds(tx, (pair.old.job for pair in pairs))
    new = _seconds(tx, (pair.new.job for pair in pairs))
    rows = tx.execute(select(DEVICE.c.id, DEVICE.c.key, DEVICE.c.name).order_by(DEVICE.c.id))
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


def _seconds(tx: Connection, jobs: Iterable[int]) -> dict[int, list[float]]:
    """Canaries of each device from the first of these jobs to the last."""
    spans: dict[int, tuple[float, float]] = {}
    for page in batches(sorted(set(jobs))):
        rows = tx.execute(
            select(JOB.c.device_id, func.min(JOB.c.finished_at), func.max(JOB.c.finished_at))
            .where(JOB.c.id.in_(page))
            .group_by(JOB.c.device_id)
        )
        for device, first, last in rows:
            known = spans.get(device, (first, last))
            spans[device] = min(known[0], first), max(known[1], last)
    return {
        device: list(
            tx.execute(
                select(CANARY.c.seconds).where(
                    CANARY.c.device_id == device,
                    CANARY.c.measured_at.between(first - AROUND, last + AROUND),
                )
            ).scalars()
        )
        for device, (first, last) in spans.items()
    }
