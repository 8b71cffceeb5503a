"""Where the time of a phase goes: by the steps of the model, as timestamps between levels tell."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from statistics import median
from typing import Final

from vkbench.result import STEP
from vkbench_worker.models.passage import Passage

_LEAST_RUNS: Final = 5
_MOST_RUNS: Final = 50
_SECONDS: Final = 0.2


def profile(run: Passage) -> Mapping[str, float]:
    """Seconds of the steps of each label, over all layers; none where the host's clock times.

    Launches of one level run beside each other: its time is shared out by what they move, among
    those that are not ahead of their steps: these fill gaps that the others leave. A
    timestamp takes 1 to 2 us on a GPU, and stands behind each level, so that the sum is more than
    an undisturbed run takes.
    """
    if run.device.clock != "gpu":
        return {}
    runs: list[list[float]] = []
    stamped, began = run.stamped, time.perf_counter()
    while len(runs) < _LEAST_RUNS or (
        len(runs) < _MOST_RUNS and time.perf_counter() - began < _SECONDS
    ):
        runs.append(stamped.run())
    step_seconds: dict[str, float] = defaultdict(float)
    for level, seconds in zip(run.levels, zip(*runs, strict=True), strict=True):
        own = [launch for launch in level if not launch.is_ahead]
        shares = [launch.step.problem.bytes_moved for launch in own]
        for launch, share in zip(own, shares, strict=True):
            step_seconds[f"{STEP}{launch.step.label}"] += median(seconds) * share / sum(shares)
    return step_seconds
