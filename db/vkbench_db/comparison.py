"""Two runs side by side: what became wrong or right, and how the times of equal work changed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from sqlalchemy import Connection, Row, select

from vkbench.job import State
from vkbench_db.views import RESULTS

Work = tuple[str, str, str, str]  # device key, case, mode, variant asked for
_SEVERITY = (State.WRONG, State.FAILED, State.SKIPPED, State.PASSED)


@dataclass(frozen=True, kw_only=True)
class Side:
    """One metric of one piece of work in one run."""

    seconds: float  # median; of the repetitions' medians where the run repeats
    low: float
    high: float
    count: int  # samples, of all repetitions
    variant_run: str
    driver: str
    driver_version: str


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The same work timed in both runs."""

    device: str  # key
    device_name: str
    host: str
    case_name: str
    mode: str
    variant: str
    metric: str
    old: Side
    new: Side

    @property
    def ratio(self) -> float:
        """New over old: above 1 is slower."""
        return self.new.seconds / self.old.seconds


@dataclass(frozen=True, kw_only=True)
class Change:
    """The same work, ended differently."""

    device: str  # key
    device_name: str
    host: str
    case_name: str
    mode: str
    variant: str
    old: State
    new: State
    reason: str  # of the new one


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All that two runs have in common, and how much they do not."""

    changes: tuple[Change, ...]  # the gravest first
    pairs: tuple[Pair, ...]  # the slowest first
    only_old: int  # pieces of work, finished in one run alone
    only_new: int
    geometric_mean: float | None  # of the ratios; None without pairs


@dataclass(frozen=True)
class _Work:
    """A piece of work in one run: a row of each repetition and metric."""

    rows: tuple[Row[*tuple[object, ...]], ...]

    @property
    def state(self) -> State:
        """The gravest of the repetitions'."""
        return min((State(row.state) for row in self.rows), key=_SEVERITY.index)

    @property
    def reason(self) -> str:
        return next((row.reason for row in self.rows if row.state == self.state), "")

    def sides(self) -> dict[str, Side]:
        timed: dict[str, list[Row[*tuple[object, ...]]]] = {}
        for row in self.rows:
            # a time counts only with a right output, and a ratio only over a time
            if row.metric and row.seconds and row.state == State.PASSED:
                timed.setdefault(row.metric, []).append(row)
        return {metric: _side(rows) for metric, rows in timed.items()}


def compare(tx: Connection, old: int, new: int) -> Comparison:
    """Pair two runs' results by device, case, mode, variant and metric."""
    before, after = _works(tx, old), _works(tx, new)
    both = [work for work in before if work in after]
    pairs = [pair for work in both for pair in _pairs(work, before[work], after[work])]
    changes = [
        _change(work, before[work], after[work])
        for work in both
        if before[work].state != after[work].state
    ]
    return Comparison(
        changes=tuple(sorted(changes, key=_gravity)),
        pairs=tuple(sorted(pairs, key=_slowness)),
        only_old=len(before) - len(both),
        only_new=len(after) - len(both),
        geometric_mean=geometric_mean(pair.ratio for pair in pairs),
    )


def geometric_mean(ratios: Iterable[float]) -> float | None:
    """The mean of ratios; None of none."""
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


def _works(tx: Connection, run: int) -> Mapping[Work, _Work]:
    view = RESULTS.c
    rows = tx.execute(
        select(
            *(view.device, view.device_name, view.host, view.driver, view.driver_version),
            *(view.case_name, view.mode, view.variant, view.variant_run, view.state, view.reason),
            *(view.metric, view.seconds, view.low, view.high, view.count),
        )
        .where(view.run == run)
        .order_by(view.job)
    )
    grouped: dict[Work, list[Row[*tuple[object, ...]]]] = {}
    for row in rows:
        grouped.setdefault((row.device, row.case_name, row.mode, row.variant), []).append(row)
    return {work: _Work(tuple(rows)) for work, rows in grouped.items()}


def _side(rows: list[Row[*tuple[object, ...]]]) -> Side:
    last = rows[-1]
    return Side(
        seconds=median(row.seconds for row in rows),
        low=min(row.low for row in rows),
        high=max(row.high for row in rows),
        count=sum(int(row._mapping["count"]) for row in rows),
        variant_run=last.variant_run or "",
        driver=last.driver or "",
        driver_version=last.driver_version or "",
    )


def _pairs(work: Work, before: _Work, after: _Work) -> list[Pair]:
    old, new = before.sides(), after.sides()
    device, case, mode, variant = work
    row = after.rows[0]
    return [
        Pair(
            device=device,
            device_name=row.device_name,
            host=row.host,
            case_name=case,
            mode=mode,
            variant=variant,
            metric=metric,
            old=old[metric],
            new=new[metric],
        )
        for metric in old
        if metric in new
    ]


def _change(work: Work, before: _Work, after: _Work) -> Change:
    device, case, mode, variant = work
    row = after.rows[0]
    return Change(
        device=device,
        device_name=row.device_name,
        host=row.host,
        case_name=case,
        mode=mode,
        variant=variant,
        old=before.state,
        new=after.state,
        reason=after.reason,
    )


def _slowness(pair: Pair) -> tuple[float, str, str]:
    return -pair.ratio, pair.case_name, pair.metric


def _gravity(change: Change) -> tuple[int, int, str]:
    return _SEVERITY.index(change.new), -_SEVERITY.index(change.old), change.case_name
