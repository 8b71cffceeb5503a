"""Samples of a timing that scatter as measured ones do: most lie low, a few take longer."""

from __future__ import annotations

from statistics import median

import numpy as np

from vkbench.result import Timing, pack_samples
from vkbench_local.demo.recording import RecordedTiming
from vkbench_worker.timing.statistics import deviation, interval

MOST = 12  # samples of a timing, to keep the file small
LEAST_SCATTER = 0.0005
TAIL = 2.0  # shape of the distribution: the lower, the longer the tail


def timing(
    recorded: RecordedTiming, seconds: float, rng: np.random.Generator, metric: str = ""
) -> Timing:
    """A timing of about these seconds; its bytes, operations and scatter are recorded ones."""
    count = max(3, min(MOST, recorded.count))
    scatter = max(LEAST_SCATTER, recorded.mad / recorded.seconds) if recorded.seconds else 0.0
    drawn = rng.gamma(TAIL, scatter, count)
    values = (seconds * (1 + drawn - TAIL * scatter)).tolist()
    found = interval(values)
    return Timing(
        metric=metric or recorded.metric,
        seconds=median(values),
        mad=deviation(values),
        low=found.low,
        high=found.high,
        confidence=found.confidence,
        best=min(values),
        count=count,
        launches=recorded.launches,
        stop=recorded.stop,
        clock="gpu",
        bytes_moved=recorded.bytes_moved,
        flops=recorded.flops,
        samples=pack_samples(values),
        warnings=recorded.warnings,
    )
