"""The nights of a simulated lab: results and pairs reach a database as a worker's do.

The steps of the scheduler's watch judge them, those that people wait for in each night: it places,
screens, measures again and cuts histories when they are due. Nothing of what they find is written
here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from vkbench.job import Job, Mode, Outcome, PlannedJob, pair_of
from vkbench.messages.wire import Announcement
from vkbench.result import ARMS, Result, Side, Timing, Verdict, pack_samples
from vkbench.run import RunWords
from vkbench_db.ask.devices.queues import queues
from vkbench_db.database import Database, Transaction
from vkbench_db.work import store
from vkbench_detection.compare.baselines import pin
from vkbench_detection.compare.references import ReferenceKind
from vkbench_detection.find import history
from vkbench_local.selftest.rigs import Rig, Stream
from vkbench_scheduler.watch.timetable import WatchStep, steps

NIGHT = 86_400.0
BEGAN = 1_760_000_000.0
LATE_SECONDS = 1200  # a night's results end by so much earlier or later
BESIDE = ("calibrate", "tune", "bisect", "health", "schedule", "peers")  # steps without work here
MOST_TURNS = 40  # of the watch in a night: pairs are looked at four times
MOST_PICKED = 64
HELD = Verdict(
    passed=True, reason="", path="f32", nmse=0.0, nmse_limit=1e-10, max_abs=0.0,
    max_abs_limit=1e-3, compared=1, total=1,
)  # fmt: skip


@dataclass(kw_only=True)
class Lab:
    """Devices, the database of their results, and what each job was of."""

    database: Database
    rigs: Sequence[Rig]
    rng: random.Random
    release: int | None = None  # the night whose run is pinned as a release
    nights: dict[int, int] = field(default_factory=dict)  # of jobs that are no pairs
    pairs: int = 0  # that were measured
    results: int = 0  # timings of the nights
    moments: list[float] = field(default_factory=list)  # when the results of each night ended

    def __post_init__(self) -> None:
        self.by_key = {rig.key: rig for rig in self.rigs}
        self.steps: Sequence[WatchStep] = [s for s in steps() if s.name not in BESIDE]
        with self.database.transaction() as tx:
            for rig in self.rigs:
                for build in rig.bundles:
                    store.store_bundle(tx, rig.bundle(build), BEGAN)

    def pass_night(self, night: int) -> None:
        """Measure a night's results, judge them, and measure again what is suspected."""
        now = BEGAN + night * NIGHT + self.rng.uniform(0, LATE_SECONDS)
        self.moments.append(now)
        there = [rig for rig in self.rigs if night not in rig.away]
        with self.database.transaction() as tx:
            for rig in there:
                store.register_device(tx, _announcement(rig, night), now)
        self._settle(night, now - 1)  # histories that were due before the results came
        with self.database.transaction() as tx:
            run = store.create_run(
                tx,
                mode=Mode.PERFORMANCE,
                selection={},
                now=now,
                words=RunWords(label=f"night {night}"),
            )
            store.add_jobs(tx, run.id, [job for rig in there for job in _plan_night(rig)])
            results = [
                result for rig in there for result in self._measure_night(tx, rig, night, now)
            ]
            store.record(tx, results, now)
            if night == self.release:
                pin(tx, "release", ReferenceKind.RUN, str(run.id), now, "")
        self.results += sum(len(result.timings) for result in results)
        self._settle(night, now)

    def _measure_night(self, tx: Transaction, rig: Rig, night: int, now: float) -> Iterator[Result]:
        for picked in store.pick(tx, rig.key, len(rig.streams), now):
            self.nights[picked.job.id] = night
            which = _stream(rig, picked.job.case)
            timings = [
                _timing(metric, rig.result(which, metric, night)) for metric in which.metrics
            ]
            yield _result(rig, which, picked.job, rig.build(night), night, timings)

    def _settle(self, night: int, now: float) -> None:
        """Take the steps of the watch until nothing is left to do."""
        for _ in range(MOST_TURNS):
            for step in self.steps:
                step.act(self.database, now)
            is_busy = self._measure_pairs(night, now)
            with self.database.reading() as tx:
                is_busy |= bool(history.due_series(tx, now, 1))
            if not is_busy:
                return

    def _measure_pairs(self, night: int, now: float) -> bool:
        with self.database.reading() as tx:
            waiting = [queue.key for queue in queues(tx) if queue.queued]
        with self.database.transaction() as tx:
            results = []
            for key in waiting:
                for picked in store.pick(tx, key, MOST_PICKED, now):
                    results.append(_pair(self.by_key[key], picked.job, night))
            store.record(tx, results, now)
        self.pairs += len(results)
        return bool(results)


def _plan_night(rig: Rig) -> list[PlannedJob]:
    return [
        PlannedJob(device=rig.key, case=stream.case, mode=Mode.PERFORMANCE)
        for stream in rig.streams
    ]


def _announcement(rig: Rig, night: int) -> Announcement:
    return Announcement(
        worker=f"{rig.name}:simulated",
        facts=rig.facts,
        environment=rig.environment(night),
        bundle=rig.bundle(rig.build(night)).sha,
    )


def _stream(rig: Rig, case: str) -> Stream:
    return next(stream for stream in rig.streams if stream.case == case)


def _pair(rig: Rig, job: Job, night: int) -> Result:
    which = _stream(rig, job.case)
    metric = pair_of(job).metric
    builds = {rig.bundle(build).sha: build for build in rig.bundles}
    timings = [
        _timing(metric, rig.arm(which, metric, builds[sha], night), side)
        for side, sha in zip(ARMS, job.bundles, strict=True)
    ]
    return _result(rig, which, job, builds[job.bundle], night, timings)


def _result(
    rig: Rig,
    which: Stream,
    job: Job,
    build: int,
    night: int,
    timings: Sequence[Timing],
) -> Result:
    return Result(
        job=job.id,
        token=job.token,
        outcome=Outcome.PASSED,
        case=job.case,
        variant="portable",
        kernel_sha=which.kernel(build),
        bundle=rig.bundle(build).sha,
        device=rig.key,
        environment=rig.environment(night).hash,
        worker=f"{rig.name}:simulated",
        started=1.0,
        seconds=1.0,
        verdict=HELD,
        timings=tuple(timings),
    )


def _timing(metric: str, seconds: float, side: Side = Side.OURS) -> Timing:
    return replace(
        _blank_timing(metric),
        side=side,
        seconds=seconds,
        mad=seconds / 500,
        low=seconds * 0.998,
        high=seconds * 1.002,
        best=seconds * 0.99,
    )


@cache
def _blank_timing(metric: str) -> Timing:
    return Timing(
        metric=metric, seconds=0.0, mad=0.0, low=0.0, high=0.0, confidence=0.95, best=0.0,
        count=20, launches=1, stop="noise", clock="gpu", bytes_moved=1, flops=1,
        samples=pack_samples([1.0]),
    )  # fmt: skip
