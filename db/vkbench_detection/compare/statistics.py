"""What drivers made of the same kernels on two sides: numbers without noise, each change is one.

Measured ones, such as joules, count as changed where the readings of both sides do not overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from vkbench.result import COMPILE, Statistic
from vkbench_db.ask.statistics import statistics_of
from vkbench_detection.compare.compared import Named, Pair


@dataclass(frozen=True, kw_only=True)
class MovedStatistic:
    """A number of a driver's that is not the same on both sides."""

    work: Named
    old: Statistic
    new: Statistic
    old_job: int
    new_job: int


def list_moved_statistics(tx: Connection, pairs: Sequence[Pair]) -> list[MovedStatistic]:
    """The statistics that moved between the newest jobs of pairs, by case and name."""
    compiled = [pair for pair in pairs if pair.metric == COMPILE]
    by_job = statistics_of(tx, (side.job for pair in compiled for side in (pair.old, pair.new)))
    moved = []
    for pair in compiled:
        before = {one.name: one for one in by_job.get(pair.old.job, ())}
        moved += [
            MovedStatistic(
                work=pair.work,
                old=before[one.name],
                new=one,
                old_job=pair.old.job,
                new_job=pair.new.job,
            )
            for one in by_job.get(pair.new.job, ())
            if one.name in before and one.differs_from(before[one.name])
        ]
    return sorted(moved, key=lambda one: (one.work.case_name, one.work.device, one.new.name))
