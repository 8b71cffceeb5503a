"""A lab whose device does its cases night by night, and measures pairs as a scheduler asks."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import text

from databases import Lab
from vkbench.device import Environment, OwnDrivers
from vkbench.job import Job, Mode, pair_of
from vkbench.messages.wire import Announcement
from vkbench.result import ARMS, Result
from vkbench_db.work import store
from vkbench_detection.confirm.levels import LASTING
from vkbench_detection.steps import detect
from vkbench_scheduler.watch import confirm

NIGHT = 86_400.0
LEVEL = 1e-3
Speed = Callable[[str], float]  # of a bundle now, against LEVEL


def bundle(name: str) -> store.StoredBundle:
    blob = name.encode()
    sha = hashlib.sha256(blob).hexdigest()
    manifest = f'{{"blobs": ["{sha}"]}}'
    own = hashlib.sha256(manifest.encode()).hexdigest()
    return store.StoredBundle(sha=own, name=name, manifest=manifest, blobs={sha: blob})


FIRST, SECOND = bundle("first"), bundle("second")


def case_of(job: Job) -> int:
    """The number of a job's case, from 1."""
    return int(job.case.partition("/m")[2].partition("_")[0])


@dataclass
class Nights:
    """A lab whose device does its cases night by night."""

    lab: Lab
    device: str
    environment: Environment
    cases: int = 1
    bundle: str = FIRST.sha
    rng: random.Random = field(default_factory=lambda: random.Random(3))
    name: str = "llvmpipe"  # of the device
    own_drivers: OwnDrivers | None = None  # of which the worker keeps copies
    untouched: int = 0  # cases, the first ones, whose kernel is the same in all bundles
    slower: Mapping[int, float] = field(default_factory=dict)  # factors of some cases

    def pass_by(self, count: int, factor: float = 1.0) -> None:
        """So many nights with everything so much slower."""
        for _ in range(count):
            self.lab.now += NIGHT
            self.announce()
            self.submit()
            self.lab.record(*(self.answer(job, factor) for job in self.lab.pick(self.device)))
            detect(self.lab.database, self.lab.now)

    def submit(self) -> None:
        """A run of all cases."""
        self.lab.submit(self.device, self.cases)

    def last(self, factor: float, speed: Speed) -> None:
        """A shift that is there night after night: what no kernel explains has to last."""
        for _ in range(LASTING + 1):
            self.pass_by(1, factor)
            self.confirm(speed)

    def announce(self) -> None:
        """The worker is there."""
        announcement = Announcement(
            worker="alpha:1",
            facts=self.lab.facts(self.name),
            environment=self.environment,
            bundle=self.bundle,
            own_drivers=self.own_drivers,
        )
        with self.lab.database.transaction() as tx:
            store.register_device(tx, announcement, self.lab.now)

    def answer(self, job: Job, factor: float) -> Result:
        seconds = LEVEL * factor * self.rng.gauss(1, 0.004) * self.slower.get(case_of(job), 1.0)
        answer = self.lab.answer(job, seconds=seconds)
        return replace(
            answer,
            timings=tuple(t for t in answer.timings if t.metric == "hot"),
            bundle=self.bundle,
            kernel_sha=self.kernel(job),
            environment=self.environment.hash,
        )

    def kernel(self, job: Job) -> str:
        """Each bundle has new ones, save for some cases."""
        text = "old" if case_of(job) <= self.untouched else self.bundle
        return hashlib.sha256(text.encode()).hexdigest()

    def confirm(self, speed: Speed, turns: int = 30) -> None:
        """What the scheduler and the worker do until nothing is left."""
        for _ in range(turns):
            confirm.step(self.lab.database, self.lab.now)
            jobs = [job for job in self.lab.pick(self.device) if job.mode == Mode.PAIRED]
            if not jobs:
                return
            self.lab.record(*(self.pair(job, speed) for job in jobs))

    def pair(self, job: Job, speed: Speed) -> Result:
        timing = self.lab.answer(replace(job, mode=Mode.PERFORMANCE)).timings[0]
        arms = {
            side: LEVEL * speed(arm.name) * self.rng.gauss(1, 0.003)
            for side, arm in zip(ARMS, job.arms, strict=True)
        }
        timings = tuple(
            replace(timing, metric=pair_of(job).metric, side=arm, seconds=each)
            for arm, each in arms.items()
        )
        answer = self.lab.answer(job)
        return replace(answer, timings=timings, bundle=job.bundle)


def rows(nights: Nights, question: str) -> list[tuple[Any, ...]]:
    with nights.lab.database.reading() as tx:
        return [tuple(row) for row in tx.execute(text(question))]
