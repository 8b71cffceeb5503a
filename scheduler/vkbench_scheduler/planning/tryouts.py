"""Try-outs: two arms timed in pairs on the cases of a selection."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from sqlalchemy import Connection

from vkbench.device import DeviceFacts
from vkbench.job import Arm, ArmKind, Mode, PlannedJob
from vkbench.programs.build import Build
from vkbench.result import ARMS
from vkbench.run import RunWords
from vkbench_db.database import Database
from vkbench_db.work.arrivals import cancel_run, explain_cancelled
from vkbench_db.work.builds import store_build
from vkbench_db.work.store import NewRun, add_jobs, create_run
from vkbench_detection.compare.tryouts import next_round
from vkbench_detection.confirm.pairs import BROKEN_OFF, is_pending
from vkbench_detection.statistics.pairs import FEWEST_PAIRS
from vkbench_scheduler.planning.pairs import PRIORITY, PairPlan, more_pairs
from vkbench_scheduler.planning.plan import plan
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.submit import selection_json

# Of samples for each arm of a pair: as many as the time has room for.
MOST_SECONDS, LEAST_SECONDS = 0.3, 0.1
_CHECK_SECONDS = 1.5  # that a case costs once; a backend compiles what it needs
_OTHER_SECONDS = 0.25  # that a pair takes beside its samples, where the clock is up


class Tried(Protocol):
    """Two arms of a kind that a try-out compares."""

    @property
    def arms(self) -> tuple[Arm, Arm]:
        """Both as the arms of a pair, the old one first."""

    def choose(self, selection: Selection) -> Selection:
        """The selection as one of the new arm."""

    def store(self, tx: Connection) -> None:
        """Note what the database does not know of them."""


@dataclass(frozen=True, kw_only=True)
class TriedBuilds:
    """The two builds of a program that a try-out compares."""

    old: Build
    new: Build

    @property
    def arms(self) -> tuple[Arm, Arm]:
        """Both builds as the arms of a pair, the old one first."""
        old, new = (Arm(name=build.sha, kind=ArmKind.BUILD) for build in (self.old, self.new))
        return old, new

    def choose(self, selection: Selection) -> Selection:
        """The selection as one of the new build."""
        return replace(selection, program=self.new.program, bundle=self.new.sha)

    def store(self, tx: Connection) -> None:
        """Note which builds these are."""
        for build in (self.old, self.new):
            store_build(tx, build)


@dataclass(frozen=True, kw_only=True)
class TriedDrivers:
    """The hashes of two drivers that a try-out compares."""

    old: str
    new: str

    @property
    def arms(self) -> tuple[Arm, Arm]:
        """Both drivers as the arms of a pair, the old one first."""
        old, new = (Arm(name=sha, kind=ArmKind.DRIVER) for sha in (self.old, self.new))
        return old, new

    def choose(self, selection: Selection) -> Selection:
        """The selection as one through the new driver."""
        return replace(selection, driver=self.new)

    def store(self, tx: Connection) -> None:
        """Note nothing: hosts know drivers, and results name them."""


def submit_tryout(
    database: Database,
    tried: Tried,
    selection: Selection,
    devices: Sequence[DeviceFacts],
    words: RunWords,
    *,
    limit_seconds: float,
) -> NewRun:
    """Store a run of one pair for each timing of a selection on these devices, on no track.

    Where the selection names no seconds of samples, they fit the time that pairs have.
    """
    chosen = tried.choose(replace(selection, mode=Mode.PERFORMANCE, track=""))
    planned = list(plan(chosen, devices))  # says what is wrong before anything is stored
    cases = max(Counter(job.device for job in planned).values(), default=1)
    seconds = chosen.measure_seconds or fit_seconds(limit_seconds, cases)
    chosen = replace(chosen, measure_seconds=seconds)
    old, new = tried.arms
    jobs = [_pair(job, old, new, seconds) for job in planned]
    with database.transaction() as tx:
        tried.store(tx)
        run = create_run(
            tx,
            mode=Mode.PAIRED,
            selection=selection_json(chosen) | {"old": old.name},
            now=time.time(),
            priority=PRIORITY,
            track="",
            words=words,
        )
        add_jobs(tx, run.id, jobs)
    return run


def fit_seconds(limit_seconds: float, cases: int) -> float:
    """How long each side of a pair is sampled, where so many cases share the time.

    Each of them can have the pairs that decide it, unless there is no time for the least samples.
    """
    pair_seconds = (limit_seconds / cases - _CHECK_SECONDS) / FEWEST_PAIRS
    samples_seconds = (pair_seconds - _OTHER_SECONDS) / len(ARMS)
    return min(MOST_SECONDS, max(LEAST_SECONDS, samples_seconds))


def _pair(job: PlannedJob, old: Arm, new: Arm, measure_seconds: float) -> PlannedJob:
    pair = PairPlan(
        case=job.case,
        variant=job.variant,
        metric="hot",
        old=old,
        new=new,
        measure_seconds=measure_seconds,
    )
    return replace(pair.job(), device=job.device)


def add_round(database: Database, run: int) -> bool:
    """Add a pair to a try-out for each case that needs one; False if none does."""
    with database.transaction() as tx:
        again = next_round(tx, run)
        more_pairs(tx, run, 1, again)
    return bool(again)


def cancel_rest(database: Database, run: int, broken_off: Collection[int] = ()) -> None:
    """Cancel the pairs of a try-out that have not ended, if there are any.

    Those that were broken off (jobs) as the time was over say so.
    """
    with database.reading() as tx:
        has_rest = is_pending(tx, run)
    if has_rest:
        cancel_run(database, run, time.time())
    if broken_off:
        explain_cancelled(database, broken_off, BROKEN_OFF)
