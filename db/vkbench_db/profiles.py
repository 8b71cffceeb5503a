"""What the noise of each series is like, kept in its row: which changes nobody can see in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, update

from vkbench import names
from vkbench_db.batches import batches
from vkbench_db.device_names import device_keys
from vkbench_db.views import CASE, CHANGE_POINT, DEVICE, HOST, MEASUREMENT, SERIES

VERDICT = "verdict"  # metric of series without times: vkbench_db.series.VERDICT
MOST = 200  # results that a profile is taken from, the newest
RENEWED_AFTER = 10  # results after which a profile is taken anew
# Of results of devices that nothing is known of yet: an H200's, and two busy cores'.
GPU_SIGMA, CPU_SIGMA = 0.005, 0.03
BATCH = 200  # series whose rows are read at once


@dataclass(frozen=True, kw_only=True)
class NoiseRow:
    """A series and its noise."""

    series: int
    host: str
    device: str  # key
    device_name: str
    case_name: str
    kernel: str
    variant: str
    metric: str
    environment_class: str
    track: str
    sigma: float | None  # of one result, relative; None until there are enough results
    noise_kind: str  # normal | skewed | modal | drifting
    autocorrelation: float | None  # of a result with the next
    smallest_effect: float | None  # changes below are not seen
    profiled_at: float | None  # when the newest result of the profile was measured


def refresh(tx: Connection, series: Iterable[int]) -> int:
    """Take the profiles of series that have enough new results; says how many were taken.

    A profile is of the results since the last confirmed change, as far as they count. It is as old
    as the newest of them: what is imported from long ago is new all the same.
    """
    taken = 0
    for page in batches(sorted(set(series)), BATCH):
        profiled = dict(
            tx.execute(select(SERIES.c.id, SERIES.c.profiled_at).where(SERIES.c.id.in_(page))).all()
        )
        starts = _starts(tx, page)
        rows = [
            row
            for number in profiled
            if (row := _profiled(tx, number, starts.get(number), profiled[number]))
        ]
        if rows:
            _store(tx, rows)
        taken += len(rows)
    return taken


def noise(
    tx: Connection, *, devices: Sequence[str] = (), kernel: str = "", case: str = ""
) -> list[NoiseRow]:
    """All series of these devices, with their noise where it is known; globs for the others."""
    where = [DEVICE.c.key.in_(device_keys(tx, devices))] if devices else []
    rows = tx.execute(
        select(
            *(SERIES.c.id.label("series"), HOST.c.name.label("host")),
            *(DEVICE.c.key.label("device"), DEVICE.c.name.label("device_name")),
            *(CASE.c.name.label("case_name"), CASE.c.kernel, SERIES.c.variant, SERIES.c.metric),
            *(SERIES.c.environment_class, SERIES.c.track, SERIES.c.sigma, SERIES.c.noise_kind),
            *(SERIES.c.autocorrelation, SERIES.c.smallest_effect, SERIES.c.profiled_at),
        )
        .join(DEVICE, DEVICE.c.id == SERIES.c.device_id)
        .join(HOST, HOST.c.id == DEVICE.c.host_id)
        .join(CASE, CASE.c.id == SERIES.c.case_id)
        .where(SERIES.c.metric != VERDICT, *where)
        .order_by(SERIES.c.id)
    )
    found = [NoiseRow(**row._mapping) for row in rows]
    for name, pattern in (("kernel", kernel), ("case_name", case)):
        if pattern:
            known = sorted({getattr(row, name) for row in found})
            fitting = set(names.matching(pattern, known, name.removesuffix("_name")))
            found = [row for row in found if getattr(row, name) in fitting]
    return found


def device_sigmas(tx: Connection) -> dict[str, float]:
    """What results usually scatter by on each device, by its key: for series without a profile."""
    known: dict[int, list[float]] = {}
    asked = select(SERIES.c.device_id, SERIES.c.sigma).where(SERIES.c.sigma.is_not(None))
    for device, sigma in tx.execute(asked):
        known.setdefault(device, []).append(sigma)
    rows = tx.execute(select(DEVICE.c.id, DEVICE.c.key, DEVICE.c.facts))
    return {
        row.key: median(known[row.id]) if row.id in known else _presumed(row.facts) for row in rows
    }


def _presumed(facts: Mapping[str, Any]) -> float:
    return CPU_SIGMA if facts.get("type") == "cpu" else GPU_SIGMA


def _starts(tx: Connection, series: Sequence[int]) -> Mapping[int, float]:
    """Where the last segment of each series begins, if it has changed before."""
    found = tx.execute(
        select(CHANGE_POINT.c.series_id, func.max(MEASUREMENT.c.measured_at))
        .join(
            MEASUREMENT,
            (MEASUREMENT.c.job_id == CHANGE_POINT.c.after_job)
            & (MEASUREMENT.c.series_id == CHANGE_POINT.c.series_id),
        )
        .where(CHANGE_POINT.c.series_id.in_(series), CHANGE_POINT.c.state == "confirmed")
        .group_by(CHANGE_POINT.c.series_id)
    )
    return dict(found.all())


def _profiled(
    tx: Connection, series: int, start: float | None, known: float | None
) -> dict[str, Any] | None:
    """None where there are too few results for a profile, or too few new ones since the last."""
    from vkbench_db.statistics.noise import LEAST, profile

    timing = MEASUREMENT.c
    since = () if start is None else (timing.measured_at >= start,)
    rows = tx.execute(
        select(timing.seconds, timing.measured_at)
        .where(timing.series_id == series, timing.flag == "", timing.seconds > 0, *since)
        .order_by(timing.measured_at.desc(), timing.job_id.desc())
        .limit(MOST)
    ).all()
    new = sum(known is None or row.measured_at > known for row in rows)
    if len(rows) < LEAST or (known is not None and new < RENEWED_AFTER):
        return None
    found = profile([row.seconds for row in reversed(rows)])
    return {
        "number": series,
        "new_sigma": found.sigma,
        "new_noise_kind": str(found.kind),
        "new_autocorrelation": found.ar1,
        "new_smallest_effect": found.floor,
        "new_profiled_at": rows[0].measured_at,
    }


def _store(tx: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    names = [name.removeprefix("new_") for name in rows[0] if name != "number"]
    values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in names}
    tx.execute(update(SERIES).where(SERIES.c.id == bindparam("number")).values(**values), rows)
