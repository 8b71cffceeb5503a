"""Answers the demonstration's requests for paired timings, with the noise of its nights."""

from __future__ import annotations

import numpy as np

from vkbench.job import Job, Outcome
from vkbench.result import ARMS, Result, Side, Timing
from vkbench_db.database import Database
from vkbench_db.work import store
from vkbench_detection.confirm import confirmations
from vkbench_detection.steps import conclude
from vkbench_local.demo import story
from vkbench_local.demo.lab import Machine
from vkbench_local.demo.nights import Lab, verdict_of
from vkbench_local.demo.recording import RecordedCase, timing
from vkbench_local.demo.releases import computed_by, find_release
from vkbench_scheduler.watch import confirm

PAIR_SECONDS = 4.0
MOST_PICKED = 64
QUIET = 0.6  # share of a night's noise that is left between the turns of a pair


def measure_again(database: Database, lab: Lab, night: int, now: float) -> float:
    """Measure all that is suspected, as a scheduler does, until nothing is; the time at the end.

    Devices work side by side.
    """
    ended = max(_measure_on(database, lab, machine, night, now) for machine in lab.machines)
    conclude(database, ended)
    return ended


def _measure_on(database: Database, lab: Lab, machine: Machine, night: int, now: float) -> float:
    key = lab.facts(machine).key
    while confirm.begin(database, now, (key,)).runs:
        while _is_running(database, key):
            with database.transaction() as tx:
                picked = store.pick(tx, key, MOST_PICKED, now)
                now += PAIR_SECONDS * len(picked)
                results = [_pair(lab, machine, night, one.job, now) for one in picked]
                store.record(tx, results, now)
            confirm.look(database, now)
    return now


def _is_running(database: Database, device: str) -> bool:
    with database.reading() as tx:
        return bool(confirmations.running(tx, (device,)))


def _pair(lab: Lab, machine: Machine, night: int, job: Job, now: float) -> Result:
    case, kernel = _find_code(lab, machine, job)
    rng = np.random.default_rng([lab.seed, night, job.id])
    return Result(
        job=job.id,
        token=job.token,
        outcome=Outcome.PASSED,
        case=job.case,
        variant=case.variant,
        kernel_sha=kernel,
        bundle=job.bundle,
        verdict=verdict_of(case, is_right=True),
        timings=tuple(_arm(lab, machine, night, case, job, rng, arm) for arm in ARMS),
        device=lab.facts(machine).key,
        environment=lab.environment(machine, night),
        worker=f"{machine.host}:demonstration",
        started=now - PAIR_SECONDS,
        seconds=PAIR_SECONDS,
    )


def _find_code(lab: Lab, machine: Machine, job: Job) -> tuple[RecordedCase, str]:
    """What computes a job's case there, and its hash: a release, or a kernel of the new bundle."""
    if release := find_release(job.bundle):
        return computed_by(release, lab.by_name[job.case][0]), release.sha
    case = machine.runs(lab.by_name[job.case]) or lab.by_name[job.case][0]
    build = lab.bundles.index(job.bundle)
    return case, story.kernel_sha(case.case, case.variant, build)


def _arm(
    lab: Lab,
    machine: Machine,
    night: int,
    case: RecordedCase,
    job: Job,
    rng: np.random.Generator,
    arm: Side,
) -> Timing:
    sha = job.arms[ARMS.index(arm)].name
    if release := find_release(sha):
        case = computed_by(release, lab.by_name[job.case][0])
    build = None if release else lab.bundles.index(sha)
    [metric] = [
        n
        for n, recorded in enumerate(case.timings)
        if job.pair and recorded.metric == job.pair.metric
    ]
    level = lab.level(case, metric, machine, night, build)
    noise = float(np.exp(rng.normal(0, QUIET * machine.noise)))
    return timing(case.timings[metric], level * noise, rng, arm)
