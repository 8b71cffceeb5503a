"""A try-out of two builds on a planted device, whose pairs a worker answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from databases import Lab, verdict
from planted_build_runs import add_build
from vkbench.job import Job, Mode, Outcome
from vkbench.result import ARMS, Result, WrongArm
from vkbench.run import RunWords
from vkbench_detection.compare.tryouts import Tryout, tryout_of
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.tryouts import TriedBuilds, submit_tryout

SLOWER, FASTER, SAME, WRONG = (
    *("add/f32/b1_c1_h8_w64", "mul/f32/b1_c1_h8_w64"),
    *("silu/f32/b1_c1_h8_w64", "tanh/f32/b1_c1_h8_w64"),
)
CASES = (FASTER, SAME, SLOWER, WRONG)
SPEEDS = {SLOWER: 1.2, FASTER: 0.5}


class Trial:
    """A try-out on a planted device, whose pairs a worker answers."""

    def __init__(self, lab: Lab, speeds: Mapping[str, float] = SPEEDS, label: str = "") -> None:
        self.lab, self.speeds, self.rng = lab, speeds, Random(1)
        self.device = lab.add_device()
        self.builds = TriedBuilds(old=add_build(lab, "b1"), new=add_build(lab, "b2"))
        selection = Selection(cases=CASES, devices=(self.device,))
        run = submit_tryout(
            lab.database,
            self.builds,
            selection,
            [lab.facts()],
            RunWords(label=label),
            limit_seconds=600,
        )
        self.run = run.id

    def answer(self, job: Job) -> Result:
        """What a worker says of a pair."""
        if job.case == WRONG:
            judged = replace(verdict(passed=False), wrong_arm=WrongArm.NEW)
            return replace(self.lab.answer(job, Outcome.WRONG), verdict=judged, timings=())
        timing = self.lab.answer(replace(job, mode=Mode.PERFORMANCE)).timings[0]
        seconds = {"old": 1e-3, "new": 1e-3 * self.speeds.get(job.case, 1.0)}
        timings = tuple(
            replace(timing, metric="hot", side=arm, seconds=seconds[arm] * self.rng.gauss(1, 1e-3))
            for arm in ARMS
        )
        return replace(self.lab.answer(job), timings=timings, bundle=job.bundle)

    def do_round(self, most: int = 1000) -> list[str]:
        """Do pairs that wait; their cases."""
        jobs = self.lab.pick(self.device)[:most]
        self.lab.record(*map(self.answer, jobs))
        return [job.case for job in jobs]

    def so_far(self) -> Tryout:
        """What the pairs say by now."""
        with self.lab.database.reading() as tx:
            return tryout_of(tx, self.run, old="b1", new="b2")
