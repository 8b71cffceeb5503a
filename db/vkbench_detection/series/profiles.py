"""The noise of each series, stored in its row, and the smallest change that it lets one see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from statistics import median
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, update

from vkbench.words import names
from vkbench_db import schema
from vkbench_db.ask.devices.names import device_keys
from vkbench_db.batches import batches
from vkbench_db.rows import fetch, select_record

VERDICT = "verdict"  # metric of series without times: vkbench_detection.series.points.VERDICT
MOST = 200  # results that a profile is taken from, the newest
RENEWED_AFTER = 10  # results after which a profile is taken anew
# Of results of devices that nothing is known of yet: an H200's, and two busy cores'.
GPU_SIGMA, CPU_SIGMA = 0.005, 0.03
# By the host's clock results of a process are put off together besides: by a share, as its arrays
# lie otherwise in memory, and short launches by what the host takes to record them. One build of
# ggml-vulkan, twice on an H200: up to 5 %, and up to 3 us of launches of less than 10.
HOST = "host"  # its clock, as measurements name it
HOST_SIGMA, HOST_SECONDS = 0.01, 0.7e-6
HOST_BOUND_SECONDS = 12e-6  # of a launch up to which the host may hold the device up
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
    side: str
    environment_class: str
    track: str
    sigma: float | None  # of one result, relative; None until there are enough results
    noise_kind: str  # normal | skewed | modal | drifting
    autocorrelation: float | None  # of a result with the next
    smallest_effect: float | None  # changes below are not seen
    profiled_at: float | None  # when the newest result of the profile was measured


def refresh(tx: Connection, series: Iterable[int]) -> int:
    """Profile the noise of series that have enough new results; return how many.

    A profile is of the results since the last confirmed change, as far as they count. It is as old
    as the newest of them: what is imported from long ago is new all the same.
    """
    taken = 0
    table = schema.series.c
    for page in batches(series, BATCH):
        profiled = dict(
            tx.execute(select(table.id, table.profiled_at).where(table.id.in_(page))).all()
        )
        starts = _starts(tx, page)
        rows = [
            row
            for number in profiled
            if (row := _profile_series(tx, number, starts.get(number), profiled[number]))
        ]
        if rows:
            _store(tx, rows)
        taken += len(rows)
    return taken


def noise(
    tx: Connection, *, devices: Sequence[str] = (), kernel: str = "", case: str = ""
) -> list[NoiseRow]:
    """The series of these devices, with their noise if it is known; kernel and case are globs."""
    table = schema.series.c
    where = [schema.device.c.key.in_(device_keys(tx, devices))] if devices else []
    query = (
        select_record(NoiseRow, schema.series, series=table.id)
        .select_from(schema.named_series)
        .where(table.metric != VERDICT, *where)
        .order_by(table.id)
    )
    series = fetch(tx, query, NoiseRow)
    for name, pattern in (("kernel", kernel), ("case_name", case)):
        if pattern:
            known = sorted({getattr(row, name) for row in series})
            fitting = set(names.matching(pattern, known, name.removesuffix("_name")))
            series = [row for row in series if getattr(row, name) in fitting]
    return series


def device_sigmas(tx: Connection) -> dict[str, float]:
    """The usual scatter of results by device key, for series without a profile."""
    known: dict[int, list[float]] = {}
    table = schema.series.c
    for device, sigma in tx.execute(select(table.device_id, table.sigma)):
        if sigma is not None:
            known.setdefault(device, []).append(sigma)
    rows = tx.execute(select(schema.device.c.id, schema.device.c.key, schema.device.c.facts))
    return {
        row.key: median(known[row.id]) if row.id in known else _presume_sigma(row.facts)
        for row in rows
    }


def host_sigma(usual: float, seconds: float) -> float:
    """The scatter of a time by the host's clock, of a device whose results usually have another."""
    recording = HOST_SECONDS / seconds if seconds < HOST_BOUND_SECONDS else 0.0
    return hypot(usual, HOST_SIGMA, recording)


def _presume_sigma(facts: Mapping[str, Any]) -> float:
    return CPU_SIGMA if facts.get("type") == "cpu" else GPU_SIGMA


def _starts(tx: Connection, series: Sequence[int]) -> Mapping[int, float]:
    """Where the last segment of each series begins, if it has changed before."""
    change, timing = schema.change_point.c, schema.measurement.c
    starts = tx.execute(
        select(change.series_id, func.max(timing.measured_at))
        .join(
            schema.measurement,
            (timing.job_id == change.after_job) & (timing.series_id == change.series_id),
        )
        .where(
            *(change.series_id.in_(series), change.state == "confirmed"),
            change.method != "decay",  # which begins no level
        )
        .group_by(change.series_id)
    )
    return {number: at for number, at in starts if at is not None}


def _profile_series(
    tx: Connection, series: int, start: float | None, known: float | None
) -> dict[str, Any] | None:
    """The profile of a series; None with too few results, or too few new ones since the last."""
    from vkbench_detection.statistics.noise import LEAST, profile

    timing = schema.measurement.c
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
    measured = profile([row.seconds for row in reversed(rows)])
    return {
        "number": series,
        "new_sigma": measured.sigma,
        "new_noise_kind": str(measured.kind),
        "new_autocorrelation": measured.ar1,
        "new_smallest_effect": measured.floor,
        "new_profiled_at": rows[0].measured_at,
    }


def _store(tx: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    names = [name.removeprefix("new_") for name in rows[0] if name != "number"]
    values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in names}
    tx.execute(
        update(schema.series).where(schema.series.c.id == bindparam("number")).values(**values),
        rows,
    )
