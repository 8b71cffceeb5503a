"""Comparisons with peers, as a worker records them."""

from __future__ import annotations

from dataclasses import replace

from databases import Lab
from planted_runs import timing
from vkbench.job import Job, Mode
from vkbench.result import Result, Side

CASE = "mul_mat_vec/q4_0/m1_n1_k256"


def compared(lab: Lab, job: Job, theirs: float, ours: float, spread: float = 0.01) -> Result:
    """What a worker says of a job of a peer."""
    answer = lab.answer(replace(job, mode=Mode.PERFORMANCE))
    timings = (timing("hot", theirs, spread, Side.THEIRS), timing("hot", ours))
    return replace(answer, variant=job.variant, settings="version=2,ours=tiled", timings=timings)


def compare(
    lab: Lab,
    device: str,
    theirs: float,
    ours: float,
    peer: str = "numpy",
    case: str = CASE,
    *,
    spread: float = 0.01,
) -> int:
    """A run that compared a case with a peer, whose median is known to so much."""
    number = lab.submit(device, [case], mode=Mode.PEER, variant=peer)
    [job] = lab.pick(device)
    lab.record(compared(lab, job, theirs, ours, spread))
    return number
