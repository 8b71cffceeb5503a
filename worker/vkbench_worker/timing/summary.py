"""Samples of one launch summed up as a timing, and timings with the verdict after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from vkbench.result import Side, Timing, Verdict, pack_samples
from vkbench_worker.timing.statistics import deviation, interval


@dataclass(frozen=True, kw_only=True)
class Timed:
    """What came of timing."""

    timings: tuple[Timing, ...]  # none when the outputs were not right any more
    verdict: Verdict
    telemetry: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How samples were taken."""

    metric: str  # hot | cold; of shards, hot | copies
    launches: int  # launches in one sample
    stop: str = "time"  # which bound ended the sampling
    clock: str  # gpu | host
    bytes_moved: int = 0  # by a launch; 0 where that is not known
    flops: int = 0
    warnings: tuple[str, ...] = ()
    side: Side = Side.OURS


def timing_of(samples: Sequence[float], how: Sampling) -> Timing:
    """The samples' median, its interval and how they scatter."""
    around = interval(samples)
    return Timing(
        **vars(how),
        seconds=median(samples),
        mad=deviation(samples),
        low=around.low,
        high=around.high,
        confidence=around.confidence,
        best=min(samples),
        count=len(samples),
        samples=pack_samples(samples),
    )
