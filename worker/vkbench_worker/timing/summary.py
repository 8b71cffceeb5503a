"""Samples of one launch summed up as a timing, and timings with the verdict after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from vkbench.result import Timing, Verdict, pack_samples
from vkbench_worker.timing.statistics import deviation, interval


@dataclass(frozen=True, kw_only=True)
class Timed:
    """What came of timing."""

    timings: tuple[Timing, ...]  # none when the outputs were not right any more
    verdict: Verdict
    telemetry: Mapping[str, float]


def timing_of(
    samples: Sequence[float],
    *,
    metric: str,
    launches: int,
    stop: str,
    clock: str,
    bytes_moved: int,
    flops: int,
    warnings: tuple[str, ...],
) -> Timing:
    """The samples' median, its interval and how they scatter."""
    around = interval(samples)
    return Timing(
        metric=metric,
        seconds=median(samples),
        mad=deviation(samples),
        low=around.low,
        high=around.high,
        confidence=around.confidence,
        best=min(samples),
        count=len(samples),
        launches=launches,
        stop=stop,
        clock=clock,
        bytes_moved=bytes_moved,
        flops=flops,
        samples=pack_samples(samples),
        warnings=warnings,
    )
