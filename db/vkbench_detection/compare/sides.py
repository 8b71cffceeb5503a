"""One side of a comparison: the results of a piece of work, pooled as far as they are alike.

A driver's or a bundle's newest results may span several kernels, a run's may too. Their median is
of none of them: so a side has what the newest job has, kernel, settings and environment alike, and
nothing from before the last confirmed change of its series.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import comb
from statistics import median
from typing import Any, Final, NamedTuple, TypeAlias

from vkbench.job import SEVERITY, JobState
from vkbench_detection.statistics.ratios import CONFIDENCE, is_too_noisy

RANKED_FROM: Final = 6  # results whose order has an interval of the median

Key: TypeAlias = tuple[int, int, str, str]  # device, case, mode, variant asked for
Moment: TypeAlias = Any  # as the database's driver has it; they have an order
SOFTWARE: Final = ("code path", "kernel", "settings", "environment")
_PASSED: Final = str(JobState.PASSED)

# series to the jobs with which a confirmed change of it began, and their ends
Cuts: TypeAlias = Mapping[int, Sequence[Moment]]


# Tuples and no dataclasses, here and in `comparison`: tens of thousands are made for one answer.
class TimedRow(NamedTuple):
    """One metric of a finished job; what was not timed has no value."""

    device: int
    case: int
    mode: str
    variant: str  # asked for
    metric: str
    job: int
    ended: Moment
    state: str
    code_path: str | None  # that ran
    kernel: str | None
    settings: str | None
    environment: str | None  # hash
    value: float  # seconds
    low: float
    high: float
    samples: int
    flag: str
    series: int | None
    roof: float | None  # share of it

    @property
    def software(self) -> tuple[str | None, ...]:
        """What it ran, in the order of SOFTWARE."""
        return self.code_path, self.kernel, self.settings, self.environment


class Side(NamedTuple):
    """One metric of one piece of work on one side of a comparison."""

    value: float  # the median of these:
    values: tuple[float, ...]  # medians of its results in seconds, the oldest first
    low: float  # the interval of the median
    high: float
    samples: int  # of all results
    job: int  # of the newest
    flag: str  # why they should not count: only where none is without a flag
    series: int | None  # where the newest is placed
    roof: float | None = None  # share of the device's roof, the median of these
    left_out: int = 0  # results that ran something else, or are older than a confirmed change
    left_out_for: str = ""  # what they had otherwise: "kernel, environment"
    is_pure: bool = True  # whether all results say what they ran, and it is the same
    sigma: float | None = None  # of one result in that series, relative, once it was looked up
    autocorrelation: float | None = None  # of a result in that series with the next, likewise
    device_sigma: float | None = None  # what its device's results usually have
    is_in_turns: bool = False  # its times are of pairs with the other side, in their order
    ended: Moment | None = None  # when the newest did; of pairs that is not looked up
    environment: str | None = None  # hash, of the newest

    @property
    def is_too_noisy(self) -> bool:
        """Whether its time is known too badly to be one side of a ratio."""
        return is_too_noisy(self.value, self.low, self.high)


class ComparedWork(NamedTuple):
    """A piece of work as one side knows it."""

    state: str  # the gravest of its results'
    job: int  # the newest in that state
    environments: tuple[str, ...]  # hashes, sorted; empty where nothing ran
    sides: Mapping[str, Side]  # by metric


def work_of_job(rows: Sequence[TimedRow]) -> ComparedWork:
    """The work of one job: each metric once. Most are so, and there are thousands."""
    first = rows[0]
    job, environment = first.job, first.environment
    sides = {}
    for row in rows:
        if _is_timed(row):
            sides[row.metric] = Side(
                value=row.value,
                values=(row.value,),
                low=row.low,
                high=row.high,
                samples=row.samples,
                job=job,
                flag=row.flag,
                series=row.series,
                roof=row.roof,
                ended=row.ended,
                environment=environment,
            )
    return ComparedWork(first.state, job, (environment,) if environment else (), sides)


def work_of_jobs(rows: Sequence[TimedRow], cuts: Cuts) -> ComparedWork:
    """The work of several jobs, the oldest first: of those that ran what the newest ran."""
    alike = _keep_alike(rows)
    jobs = {row.job for row in alike}
    by_metric: dict[str, list[TimedRow]] = {}
    others: dict[str, list[TimedRow]] = {}
    for row in rows:
        if _is_timed(row):
            chosen = by_metric if row.job in jobs else others
            known = chosen.get(row.metric)
            if known is None:
                chosen[row.metric] = [row]
            else:
                known.append(row)
    states = {row.state for row in alike}
    state = min(states, key=_severity) if len(states) > 1 else alike[0].state
    return ComparedWork(
        state,
        max([row.job for row in alike if row.state == state]),
        tuple(sorted({row.environment for row in alike if row.environment})),
        {
            metric: _pool_side(timed, others.get(metric, []), cuts)
            for metric, timed in by_metric.items()
        },
    )


def interval(
    values: Sequence[float], lows: Sequence[float], highs: Sequence[float]
) -> tuple[float, float]:
    """The interval of the median of results: by their order, of few their own widest bounds."""
    if len(values) < RANKED_FROM:
        return min(lows), max(highs)
    ordered, skipped = sorted(values), _count_skipped(len(values))
    return ordered[skipped], ordered[-1 - skipped]


@lru_cache(maxsize=512)
def _count_skipped(count: int) -> int:
    """How many ordered values lie outside the interval of their median on each side."""
    outside, skipped = 0.0, -1
    while 2 * (outside := outside + comb(count, skipped + 1) / 2**count) <= 1 - CONFIDENCE:
        skipped += 1
    return max(0, skipped)


def _keep_alike(rows: Sequence[TimedRow]) -> list[TimedRow]:
    """What ran the same as the newest.

    A job whose tries all failed says not what it ran: it is of the time that it lies in.
    """
    if len({row.software for row in rows}) == 1:  # as nearly always
        return list(rows)
    newest = next((ran for row in reversed(rows) if any(ran := row.software)), None)
    alike: list[TimedRow] = []
    has_passed_others = False
    for row in reversed(rows):
        ran = row.software
        if ran == newest or (not any(ran) and not has_passed_others):
            alike.append(row)
        elif any(ran):
            has_passed_others = True
    return alike[::-1]


def _pool_side(alike: Sequence[TimedRow], others: Sequence[TimedRow], cuts: Cuts) -> Side:
    counting = [row for row in alike if not row.flag] or alike
    newest = counting[-1]
    pool = _since_the_last_change(counting, cuts)
    values = tuple(row.value for row in pool)
    low, high = interval(values, [row.low for row in pool], [row.high for row in pool])
    shares = [row.roof for row in pool if row.roof]
    unlike = [row for row in others if not row.flag]
    older = len(counting) - len(pool)
    differing = _differing(newest, unlike) + (["level"] if older else [])
    return Side(
        value=median(values),
        values=values,
        low=low,
        high=high,
        samples=sum(row.samples for row in pool),
        job=newest.job,
        flag=newest.flag,
        series=newest.series,
        roof=median(shares) if shares else None,
        left_out=len(unlike) + older,
        left_out_for=", ".join(differing),
        is_pure=len(pool) < 2 or bool(newest.kernel and newest.environment),
        ended=newest.ended,
        environment=newest.environment,
    )


def _since_the_last_change(rows: Sequence[TimedRow], cuts: Cuts) -> Sequence[TimedRow]:
    """What is not older than the last confirmed change before the newest."""
    newest = rows[-1]
    began = [end for end in cuts.get(newest.series or 0, ()) if end <= newest.ended]
    last = max(began, default=None)
    return rows if last is None else [row for row in rows if row.ended >= last]


def _differing(newest: TimedRow, unlike: Sequence[TimedRow]) -> list[str]:
    """What of the software of these is not the newest one's."""
    return [
        name
        for place, name in enumerate(SOFTWARE)
        if any(row.software[place] != newest.software[place] for row in unlike)
    ]


def _is_timed(row: TimedRow) -> bool:
    """A time counts only with a right output, and a ratio only of times above zero."""
    return bool(row.value) and row.state == _PASSED


def _severity(state: str) -> int:
    return SEVERITY.index(JobState(state))
