"""Runs of paired jobs: two bundles timed in turns on one case, to see whether they differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from vkbench.errors import UsageError
from vkbench.job import Arm, ArmKind, Mode, Pair, PlannedJob
from vkbench.run import RunWords
from vkbench_db.work.store import add_jobs, create_run
from vkbench_detection.confirm.pairs import PairedCase, last_pairs, last_source
from vkbench_scheduler.planning.plan import CHECK_SECONDS

PRIORITY = 1000  # short runs, which a user or a bisection waits for
PAIR_SECONDS = 1.0  # of samples for each bundle, half of them in each of its two turns
NOISE = 0.0025  # a turn ends early when its median is known to this fraction
LIMIT_SECONDS = 240.0  # a pair launches about four times as often as an ordinary timing
METRICS = ("hot", "cold")
ARMS = 2
VISITS = 4
WARM_SECONDS = 0.5  # of each arm, and before each visit, on a GPU
START_SECONDS = 1.0  # of a process of its own


@dataclass(frozen=True, kw_only=True)
class PairPlan:
    """What pairs time: one case and code path on two arms."""

    case: str
    variant: str
    metric: str  # hot or cold
    old: Arm
    new: Arm
    measure_seconds: float = PAIR_SECONDS

    def job(self) -> PlannedJob:
        """The job of one pair, with no device named yet; UsageError of what no pair can time."""
        if self.metric not in METRICS:
            raise UsageError(f"a pair is timed hot or cold, not '{self.metric}'")
        if self.old.kind != self.new.kind:
            raise UsageError("a pair times two bundles, two builds or two drivers in turns")
        if self.new.kind is ArmKind.DRIVER and self.metric != "hot":
            raise UsageError("two drivers are timed hot alone")
        return PlannedJob(
            device="",
            case=self.case,
            mode=Mode.PAIRED,
            variant=self.variant,
            bundle=self.new.name,
            arm_kind=self.new.kind,
            pair=Pair(old=self.old, metric=self.metric),
            limit_seconds=LIMIT_SECONDS,
            measure_seconds=self.measure_seconds,
            noise=NOISE,
            estimate_seconds=estimate(self.measure_seconds),
        )


def submit_pairs(
    tx: Connection,
    plan: PairPlan,
    *,
    devices: Sequence[str],
    count: int,
    words: RunWords,
    now: float,
    priority: int = PRIORITY,
) -> int:
    """Store a run of `count` pairs on each device (key), on no track; its number.

    Called twice it makes two runs.
    """
    pair = plan.job()
    timed = {"case": plan.case, "variant": plan.variant, "metric": plan.metric}
    arms = {"old": plan.old.name, "new": plan.new.name}
    run = create_run(
        tx,
        mode=Mode.PAIRED,
        selection={"pairs": timed | arms, "devices": list(devices)},
        now=now,
        priority=priority,
        track="",
        words=words,
    )
    first = [replace(pair, device=key, source=last_source(tx, plan.case, key)) for key in devices]
    add_jobs(tx, run.id, _in_turn(first, count))
    return run.id


def more_pairs(
    tx: Connection, run: int, count: int, only: Sequence[PairedCase] | None = None
) -> None:
    """Add `count` pairs of each case and device to a run that has some.

    Or of these `only`, in their order.
    """
    last = last_pairs(tx, run)
    again = [_swap_arms(last[key]) for key in (last if only is None else only)]
    add_jobs(tx, run, _in_turn(again, count))


def estimate(measure_seconds: float) -> float:
    """A first estimate of a pair's seconds, with its process and its checks."""
    overhead = START_SECONDS + ARMS * (CHECK_SECONDS + WARM_SECONDS)
    return overhead + VISITS * (WARM_SECONDS + measure_seconds / ARMS)


def _swap_arms(job: PlannedJob) -> PlannedJob:
    """The job with its other arm first."""
    pair = job.pair and replace(job.pair, new_first=not job.pair.new_first)
    return replace(job, pair=pair)


def _in_turn(jobs: Sequence[PlannedJob], count: int) -> Iterator[PlannedJob]:
    """Each job `count` times; old and new take turns to begin.

    What is set up first need not be as fast as what is set up after it: on an H200 two arms of the
    same code, a product that takes 6.1 us, were 1.7 % apart in pair after pair.
    """
    for turn in range(count):
        yield from map(_swap_arms, jobs) if turn % 2 else jobs
