"""A peer of the demonstration: made-up times of ggml, in the ratios that an H100 showed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from vkbench.job import JobState, Mode
from vkbench.result import HOT, Side, Timing
from vkbench_db.transfer.lines import JobLine
from vkbench_local.demo.nights import Lab, job_lines
from vkbench_local.demo.recording import RecordedTiming
from vkbench_local.demo.recording import timing as make_timing

PEER = "ggml"
NIGHTS = 6  # the last ones, in which it is timed
# times as long as ours: docs/results/h100-ggml.md, of the same cases or near ones
RATIOS = {
    "mul_mat/q4_0/m4096_n512_k14336": 1.33,
    "mul_mat/q8_0/m4096_n512_k14336": 1.23,
    "mul_mat/q4_K/m4096_n512_k14336": 1.27,
    "mul_mat/iq2_xs/m4096_n512_k14336": 1.64,
    "add/f32/b1_c1_h4096_w4096": 1.17,
    "flash_attn/q4_0/s1_h64_g8_q512_n7680_d64_e64/mask=causal": 4.16,
}
# Planted: in the last night the peer is so much faster at one case, so that our ratio to it fell.
PLANTED_CASE, PLANTED_FACTOR = "mul_mat/q4_K/m4096_n512_k14336", 0.7


def is_timed(lab: Lab, night: int) -> bool:
    """Whether the peer is timed in a night."""
    return night >= lab.nights - NIGHTS


def compare_lines(lab: Lab, night: int, began: float) -> Iterator[JobLine]:
    """The jobs of a night that time our kernels and the peer in turns."""
    rng = np.random.default_rng([lab.seed, night, 3])
    hot = {case: _find_hot(lab, case) for case in RATIOS}
    for line in job_lines(lab, night, [lab.by_name[case] for case in RATIOS], began, 3):
        own_timings = [timing for timing in line.timings if timing.metric == HOT]
        if line.state == JobState.PASSED and own_timings:
            yield _add_peer(lab, night, line, own_timings[0], hot[line.case], rng)


def _find_hot(lab: Lab, case: str) -> RecordedTiming:
    """The recorded timing whose scatter the peer's has."""
    return next(timing for timing in lab.by_name[case][0].timings if timing.metric == HOT)


def _add_peer(
    lab: Lab,
    night: int,
    line: JobLine,
    own_timing: Timing,
    recorded: RecordedTiming,
    rng: np.random.Generator,
) -> JobLine:
    is_planted = night == lab.nights - 1 and line.case == PLANTED_CASE
    ratio = RATIOS[line.case] * (PLANTED_FACTOR if is_planted else 1.0)
    theirs = make_timing(recorded, own_timing.seconds * ratio, rng, Side.THEIRS)
    settings = f"version=demonstration,ours={line.attempts[0].variant}"
    attempts = tuple(replace(attempt, variant=PEER, settings=settings) for attempt in line.attempts)
    return replace(
        line, mode=Mode.PEER, variant=PEER, attempts=attempts, timings=(theirs, own_timing)
    )
