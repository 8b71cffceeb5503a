"""Samples of a timing that scatter as measured ones do: most lie low, a few take longer."""

from __future__ import annotations

import numpy as np

from vkbench.result import Side, Timing
from vkbench_local.demo.recording import RecordedTiming
from vkbench_worker.timing.summary import Sampling, timing_of

MOST = 12  # samples of a timing, to keep the file small
LEAST_SCATTER = 0.0005
TAIL = 2.0  # shape of the distribution: the lower, the longer the tail


def timing(
    recorded: RecordedTiming, seconds: float, rng: np.random.Generator, side: Side = Side.OURS
) -> Timing:
    """A timing of about these seconds; its bytes, operations and scatter are recorded ones."""
    count = max(3, min(MOST, recorded.count))
    scatter = max(LEAST_SCATTER, recorded.mad / recorded.seconds) if recorded.seconds else 0.0
    drawn = rng.gamma(TAIL, scatter, count)
    values = (seconds * (1 + drawn - TAIL * scatter)).tolist()
    how = Sampling(
        side=side,
        metric=recorded.metric,
        launches=recorded.launches,
        stop=recorded.stop,
        clock="gpu",
        bytes_moved=recorded.bytes_moved,
        flops=recorded.flops,
        warnings=recorded.warnings,
    )
    return timing_of(values, how)
