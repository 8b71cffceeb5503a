"""A lab night by night, under a scheduler's own steps: what a test plants, and what is found.

Each night the device does its cases with the build and the driver of that night. Then the scheduler
takes its steps, and a worker measures the pairs that it asks for, until nothing is left to do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from sqlalchemy import text

from databases import ENVIRONMENT, Lab
from vkbench.device import Environment
from vkbench.job import Job, Mode, pair_of
from vkbench.messages.wire import Announcement
from vkbench.result import ARMS, Result
from vkbench_db.work import store
from vkbench_detection.find import history
from vkbench_detection.statistics import synthetic
from vkbench_detection.statistics.ratios import Floats
from vkbench_detection.statistics.synthetic import Noise
from vkbench_detection.steps import detect
from vkbench_scheduler.watch import confirm
from vkbench_scheduler.watch.timetable import look_back

NIGHT = 86_400.0
LEVEL = 1e-3
PAIRS_AT_ONCE = 48
Levels = Callable[[int, int, int, int], float]  # log of a time, by case, night, build and driver


def build(number: int) -> store.StoredBundle:
    """The bundle of a build."""
    blob = f"build {number}".encode()
    sha = hashlib.sha256(blob).hexdigest()
    manifest = f'{{"blobs": ["{sha}"]}}'
    own = hashlib.sha256(manifest.encode()).hexdigest()
    return store.StoredBundle(sha=own, name=blob.decode(), manifest=manifest, blobs={sha: blob})


@dataclass
class Watched:
    """A lab of one device, and what happens in it."""

    lab: Lab
    noise: Noise
    cases: int
    nights: int
    levels: Levels = lambda case, night, build, driver: 0.0
    builds: Sequence[int] = ()  # nights with a new build
    drivers: Mapping[int, int] = field(default_factory=dict)  # drivers from a night on
    kernels: Mapping[int, Sequence[int]] = field(default_factory=dict)  # nights: new kernel of case
    seed: int = 1
    night: int = 0  # how many are over
    pair_jobs: int = 0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        alone = replace(self.noise, sigma=0.0, spikes=0.0, modes=0.0, memory=0.0, tails=0)
        self.days = synthetic.series(alone, self.rng, self.cases, self.nights)
        self.jobs = synthetic.series(self.of_jobs, self.rng, self.cases, self.nights)
        self.runs: dict[int, tuple[Floats, Floats]] = {}
        self.device = self.lab.add_device()
        with self.lab.database.transaction() as tx:
            for number in range(len(self.builds) + 1):
                store.store_bundle(tx, build(number), self.lab.now)

    @property
    def of_jobs(self) -> Noise:
        """The noise that each job has for itself."""
        return replace(self.noise, drift=0.0, wave=0.0)

    @cached_property
    def shas(self) -> list[str]:
        return [build(number).sha for number in range(len(self.builds) + 1)]

    def build_of(self, night: int) -> int:
        return sum(each <= night for each in self.builds)

    def driver_of(self, night: int) -> int:
        return next((self.drivers[n] for n in sorted(self.drivers, reverse=True) if n <= night), 0)

    def environment(self, night: int) -> Environment:
        return replace(ENVIRONMENT, driver_version=f"22.3.{self.driver_of(night)}")

    def kernel(self, case: int, number: int) -> str:
        """What a case runs with a build."""
        builds = [self.build_of(night) for night in self.kernels.get(case, ())]
        return hashlib.sha256(f"{case} {sum(b <= number for b in builds)}".encode()).hexdigest()

    def pass_by(self, count: int) -> None:
        """So many nights, with all that a scheduler does in them."""
        for _ in range(count):
            self.lab.now += NIGHT
            self._announce()
            self.lab.submit(self.device, self.cases)
            self.lab.record(*map(self._answer, self.lab.pick(self.device, 10_000)))
            detect(self.lab.database, self.lab.now)
            self._confirm()
            self.lab.now += 1
            look_back_at_all(self)
            self._confirm()
            self.night += 1

    def _confirm(self) -> None:
        while True:
            confirm.step(self.lab.database, self.lab.now)
            jobs = [job for job in self.lab.pick(self.device) if job.mode == Mode.PAIRED]
            if not jobs:
                return
            self.pair_jobs += len(jobs)
            self.lab.record(*map(self._pair, jobs))

    def _announce(self) -> None:
        announcement = Announcement(
            worker="alpha:1",
            facts=self.lab.facts(),
            environment=self.environment(self.night),
            bundle=self.shas[self.build_of(self.night)],
        )
        with self.lab.database.transaction() as tx:
            store.register_device(tx, announcement, self.lab.now)

    def _answer(self, job: Job) -> Result:
        case, number = case_of(job), self.build_of(self.night)
        level = self.levels(case, self.night, number, self.driver_of(self.night))
        level += self.days[case, self.night] + self.jobs[case, self.night]
        answer = self.lab.answer(job, seconds=LEVEL * float(np.exp(level)))
        return replace(
            answer,
            timings=answer.timings[:1],
            bundle=self.shas[number],
            kernel_sha=self.kernel(case, number),
            environment=self.environment(self.night).hash,
        )

    def _pair(self, job: Job) -> Result:
        case = case_of(job)
        old, new = self.runs.setdefault(job.run, self._draw())
        place, driver = job.id % PAIRS_AT_ONCE, self.driver_of(self.night)
        timing = self.lab.answer(replace(job, mode=Mode.PERFORMANCE)).timings[0]
        timings = []
        for arm, sha, noise in zip(ARMS, job.bundles, (old, new), strict=True):
            level = self.levels(case, self.night, self.shas.index(sha), driver)
            seconds = LEVEL * float(np.exp(level + self.days[case, self.night] + noise[place]))
            timings.append(replace(timing, metric=pair_of(job).metric, side=arm, seconds=seconds))
        return replace(self.lab.answer(job), timings=tuple(timings), bundle=job.bundle)

    def _draw(self) -> tuple[Floats, Floats]:
        return synthetic.pairs(self.of_jobs, self.rng, PAIRS_AT_ONCE)

    @staticmethod
    def is_of(change: Any, case: int) -> bool:
        """Whether a row of `changes` is of a case."""
        return f"/m{case + 1}_" in change.case_name

    def changes(self, more: str = "") -> list[Any]:
        """Change points with the case and the nights (the first is 0) that they lie between."""
        question = f"""
            SELECT change_point.*, kernel_case.name AS case_name,
                   before_run.night AS before_night, after_run.night AS after_night
            FROM change_point JOIN series ON series.id = series_id
            JOIN kernel_case ON kernel_case.id = series.case_id
            JOIN ({NIGHTS}) AS before_run ON before_run.job = before_job
            JOIN ({NIGHTS}) AS after_run ON after_run.job = after_job
            {more} ORDER BY change_point.id
        """
        with self.lab.database.reading() as tx:
            return list(tx.execute(text(question)).all())


NIGHTS = """
    SELECT job.id AS job, DENSE_RANK() OVER (ORDER BY job.run_id) - 1 AS night
    FROM job WHERE mode <> 'paired'
"""


def case_of(job: Job) -> int:
    return int(job.case.partition("/m")[2].partition("_")[0]) - 1


def look_back_at_all(watched: Watched) -> None:
    """The pass over histories, as often as it finds some that are due."""
    while True:
        with watched.lab.database.reading() as tx:
            due = history.due_series(tx, watched.lab.now, 1)
        if not due:
            return
        look_back(watched.lab.database, watched.lab.now)
