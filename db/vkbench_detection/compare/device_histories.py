"""What the results of a device differ by while nothing changes: its runs of the same software.

Such runs are the device's own A/A nights. They say how far a device's day moves all its timings
together, and how often single results lie far off.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from math import sqrt
from operator import itemgetter
from typing import Any, Final, TypeAlias

import numpy as np
from sqlalchemy import Connection, select

from vkbench_db import schema
from vkbench_detection.changes.questions import begins_level
from vkbench_detection.compare.sides import Moment
from vkbench_detection.series.profiles import GPU_SIGMA, device_sigmas
from vkbench_detection.statistics.means import DaySpread, Numbers, day_spread
from vkbench_detection.statistics.ratios import Floats
from vkbench_detection.statistics.tails import Tails

MOST_SERIES: Final = 40  # of those that are compared: more say little more of a day
MOST_RUNS: Final = 50  # of a device, the newest


@dataclass(frozen=True, kw_only=True)
class DeviceHistory:
    """How a device's results scatter while nothing changes."""

    day: DaySpread | None = None  # None where too few runs of the same software are known
    tails: Tails = Tails()  # noqa: RUF009 - frozen


def device_history(
    tx: Connection, device: str, series: Iterable[int], without: Iterable[int] = ()
) -> DeviceHistory:
    """What these series of a device (its key) tell; the jobs of `without` do not count.

    A result that is compared alone is no evidence of how such results scatter.
    """
    chosen = _thin_series(sorted(set(series)))
    if not chosen:
        return DeviceHistory()
    results = _results(tx, chosen, set(without))
    if not results:
        return DeviceHistory()
    logs, levels = _matrix(chosen, results, _changes(tx, chosen))
    return DeviceHistory(
        day=day_spread(logs, levels),
        tails=Tails.of(find_differences(logs, levels, _sigmas(tx, device, chosen)).tolist()),
    )


def _thin_series(series: Sequence[int]) -> list[int]:
    """At most MOST_SERIES of these series, from all over the list."""
    step = max(1, len(series) / MOST_SERIES)
    return [series[int(place * step)] for place in range(min(len(series), MOST_SERIES))]


# series, job, run, moment, seconds, then the software: kernel, settings, environment
_Result: TypeAlias = tuple[int, int, int, Moment, float, str | None, str | None, str | None]
_in_order = itemgetter(3, 1)


def _results(tx: Connection, series: Sequence[int], without: set[int]) -> list[_Result]:
    """What counts in these series since the first of the device's last runs, in order."""
    timing, job, attempt = schema.measurement.c, schema.job.c, schema.attempt.c
    since = _since(tx, series[0])
    rows = tx.execute(
        select(
            *(timing.series_id, timing.job_id, job.run_id, timing.measured_at, timing.seconds),
            *(attempt.kernel_sha, attempt.settings, attempt.environment),
        )
        .join(schema.job, job.id == timing.job_id)
        .join(schema.attempt, schema.is_settling)
        .where(
            *(timing.series_id.in_(series), timing.measured_at >= since),
            *(timing.flag == "", timing.seconds > 0),
        )
    )
    # straight from the driver, and sorted here: a comparison of builds has thousands
    results: list[_Result] = list(rows.cursor.fetchall())
    results.sort(key=_in_order)
    return [result for result in results if result[1] not in without] if without else results


def _since(tx: Connection, series: int) -> float:
    timing = schema.measurement.c
    newest = (
        select(timing.measured_at)
        .where(timing.series_id == series, timing.measured_at.is_not(None))
        .order_by(timing.measured_at.desc())
        .limit(MOST_RUNS)
    )
    return min((at for at in tx.execute(newest).scalars() if at is not None), default=0.0)


def _changes(tx: Connection, series: Sequence[int]) -> Mapping[int, Sequence[Moment]]:
    """When new levels of these series began."""
    change, timing = schema.change_point.c, schema.measurement.c
    rows = tx.execute(
        select(change.series_id, timing.measured_at)
        .join(
            schema.measurement,
            (timing.job_id == change.after_job) & (timing.series_id == change.series_id),
        )
        .where(change.series_id.in_(series), begins_level(), timing.measured_at.is_not(None))
    )
    moments: dict[int, list[Moment]] = {}
    for number, at in rows.cursor.fetchall():
        moments.setdefault(number, []).append(at)
    return {number: sorted(begun) for number, begun in moments.items()}


def _matrix(
    series: Sequence[int], results: Sequence[_Result], changes: Mapping[int, Sequence[Moment]]
) -> tuple[Floats, Numbers]:
    """Logarithms of seconds, and levels: a row a run, in order, and a column a series."""
    numbers, _, ran_in, moments, times, *software = zip(*results, strict=True)
    runs = {run: row for row, run in enumerate(dict.fromkeys(ran_in))}
    columns = {number: column for column, number in enumerate(series)}
    seconds = np.full((len(runs), len(series)), np.nan)
    levels = np.zeros(seconds.shape, dtype=np.int64)
    begun: Iterable[int] = repeat(0)
    if changes:
        begun = map(bisect_right, [changes.get(number, ()) for number in numbers], moments)
    known: dict[Any, int] = {}
    level_of = known.setdefault
    cells = ([*map(runs.__getitem__, ran_in)], [*map(columns.__getitem__, numbers)])
    seconds[cells] = times  # of a case that a run has twice, the last
    levels[cells] = [level_of(level, len(known)) for level in zip(*software, begun, strict=False)]
    return np.log(seconds), levels


def find_differences(logs: Floats, levels: Numbers, sigmas: Sequence[float]) -> Floats:
    """What results of one level differ by that are half its length apart, in sigmas of both."""
    column, row = np.nonzero(np.isfinite(logs).T)  # a series after the other, each in order
    level = column * (int(levels.max(initial=0)) + 1) + levels[row, column]
    by_level = np.argsort(level, kind="stable")
    values, sigma = logs[row, column][by_level], np.asarray(sigmas)[column[by_level]]
    counts = np.unique(level, return_counts=True)[1]
    apart, ends = (np.repeat(of_level, counts) for of_level in (counts // 2, np.cumsum(counts)))
    apart = np.maximum(1, apart)
    first = np.nonzero(np.arange(len(values)) + apart < ends)[0]
    differences: Floats = values[first + apart[first]] - values[first]
    return differences / (sigma[first] * sqrt(2))


def _sigmas(tx: Connection, device: str, series: Sequence[int]) -> list[float]:
    table = schema.series.c
    known = dict(tx.execute(select(table.id, table.sigma).where(table.id.in_(series))).all())
    usual = GPU_SIGMA if all(known.values()) else device_sigmas(tx).get(device, GPU_SIGMA)
    return [known.get(number) or usual for number in series]
