"""Stage 3: where do the levels of a whole series change? For the nightly pass, not for each result.

ruptures cuts generously, and each place where the kernel or the driver moved is a candidate too.
Then the weakest boundary falls, again and again, until there is evidence for every one that is
left. There are two kinds of evidence, for two kinds of noise:

- levels: ranks of the results on both sides, where a result that remembers the one before counts
  for less. On 200 series of 120 results without a change that leaves 4 and not 55 boundaries in
  AR(1) noise, 14 and not 66 in day drift, and of changes of 5 % it costs 2 in 100. What rises
  slowly is no change: without this rule, waves of 2 % with noise of 1 % leave 20 boundaries per
  1000 results, with it fewer than 1.
- a jump: a series that wanders slowly remembers so much that no levels can differ. There a change
  shows by its suddenness: it is beyond what the series moves from a few results to the next few,
  it lasts, and it exceeds the whole wander. Steps of 20 % in waves of 2 % are found so, in 100 of
  100 series; by levels alone none was.

A jump that is sudden but within the wander is returned as uncertain, and so are other levels of a
series that walks: they differ, and nothing is sudden.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from vkbench_detection.statistics.jumps import (
    Jumps,
    exceeds_wander,
    is_sudden,
    jumps,
    lasts,
    residuals,
)
from vkbench_detection.statistics.ratios import Floats, Ratio, shift
from vkbench_detection.statistics.screen import SIGMA_FLOOR

LAST = 200  # results that are looked at
SHORTEST = 5  # results of a level
WINDOW = 7  # results of the running median, about which outliers are clipped
CLIP = 4.0  # sigmas
PENALTY = 6.0  # times ln n times the variance, for each boundary
P = 1e-4  # two-sided, of the levels on both sides; or of a jump where something moved
SOUGHT_P = 1e-6  # of a jump that stands out among all places
DOUBTED_P = 1e-2  # of a jump where something moved: rarer ones are worth a word
NEAR = 2  # results between a boundary and the move that explains it: noise puts it so far off
LEAST_CHANGE = 0.02
CREEP = 0.001  # relative: the memory of what scatters by less matters to no change
LONG_MEMORY = 0.55  # correlation with the next result; more is a walk, which has levels by itself
FAR_SIGMAS = 6.0  # of what is left without the levels: no memory explains that
MOST_MEMORY = 0.9  # that a series may have, beside what it has
CHANCE_SIGMAS = 2.0  # correlations of so many standard errors are none by chance


@dataclass(frozen=True, kw_only=True)
class LevelShift:
    """A place where the level of a series changes."""

    index: int  # of the first result of the new level
    ratio: Ratio  # new level over old
    is_certain: bool = True  # by this series alone; otherwise it should be measured again


@dataclass(frozen=True, kw_only=True)
class Rest:
    """What is left of a suspected change that is not among the changes of its series."""

    levels: Ratio  # of the results around it, corrected for memory
    is_shifted: bool  # they differ, and only the series' memory speaks against a change
    exceeds_wander: bool


@dataclass(frozen=True)
class _Boundary:
    """What speaks for a change at a place."""

    levels: Ratio  # of the results on both sides, corrected for memory
    jump: Ratio  # of the few beside it
    is_level: bool
    is_walk: bool  # levels alone prove nothing
    is_jump: bool
    is_doubted: bool

    @property
    def stands(self) -> bool:
        return self.is_level or self.is_jump or self.is_doubted

    @property
    def weakness(self) -> tuple[float, float]:
        return min(self.levels.p, self.jump.p), -abs(log(self.levels.ratio))


@dataclass(frozen=True)
class _Series:
    """The end of a series: logarithms without outliers."""

    logs: Floats
    sigma: float  # of its differences
    jumps: Jumps
    moved: Collection[int]  # places where the kernel or the driver moved

    @property
    def moved_p(self) -> float:
        return P / max(1, len(self.moved))


def find(values: Sequence[float], moved: Collection[int] = ()) -> list[LevelShift]:
    """The changes of level among the last 200 results, the oldest first.

    `moved` are the indices of the first results of another kernel or driver. Of those there are
    few, so that a smaller jump is believed there.
    """
    skipped = max(0, len(values) - LAST)
    logs = np.log(np.asarray(values[skipped:], dtype=np.float64))
    if len(logs) < 2 * SHORTEST:
        return []
    smooth, sigma = clip_outliers(logs)
    inner = {at - skipped for at in moved if SHORTEST <= at - skipped <= len(logs) - SHORTEST}
    series = _Series(smooth, sigma, jumps(smooth), inner)
    kept = _strong(series, _candidates(series))
    ends = [0, *kept, len(logs)]
    return [_change(series, skipped, at, boundary, ends) for at, boundary in kept.items()]


def rest(values: Sequence[float], index: int, around: int) -> Rest:
    """What is left of a change suspected at an index, by the results on each side."""
    logs, _ = clip_outliers(np.log(np.asarray(values, dtype=np.float64)))
    ends = [0, index, len(logs)]
    plain = shift(logs[max(0, index - around) : index], logs[index : index + around]).as_ratio()
    return Rest(
        levels=plain.stretch(_stretch(logs, ends)),
        is_shifted=plain.is_significant(alpha=P, floor=LEAST_CHANGE),
        exceeds_wander=exceeds_wander(plain, logs, ends),
    )


def _change(
    series: _Series, skipped: int, at: int, boundary: _Boundary, ends: Sequence[int]
) -> LevelShift:
    is_jump = boundary.is_jump and exceeds_wander(boundary.jump, series.logs, ends)
    if not boundary.is_level:
        return LevelShift(index=skipped + at, ratio=boundary.jump, is_certain=is_jump)
    is_far = exceeds_wander(boundary.levels, series.logs, ends, FAR_SIGMAS)
    is_sure = is_far or boundary.levels.stretch(_doubt_of(series.logs, ends)).p <= P
    is_odd = not boundary.is_walk or boundary.jump.p <= DOUBTED_P
    certain = is_jump or (is_sure and is_odd)
    return LevelShift(index=skipped + at, ratio=boundary.levels, is_certain=certain)


def clip_outliers(logs: Floats) -> tuple[Floats, float]:
    """A series without its outliers, and its sigma, which steps do not widen."""
    from scipy.ndimage import median_filter
    from scipy.stats import median_abs_deviation

    spread = float(median_abs_deviation(np.diff(logs), scale="normal"))
    sigma = max(SIGMA_FLOOR, spread / sqrt(2))
    middle = np.asarray(median_filter(logs, size=WINDOW, mode="nearest"), dtype=np.float64)
    return np.clip(logs, middle - CLIP * sigma, middle + CLIP * sigma), sigma


def _candidates(series: _Series) -> list[int]:
    """Places to be tried: where something moved rather than a result or two beside it."""
    cuts = _boundaries(series.logs / series.sigma)
    is_rare = len(series.moved) * 2 * SHORTEST <= len(series.logs)
    moved = {at for at in series.moved if is_rare or _is_notable(series, at, cuts)}
    others = {cut for cut in cuts if all(abs(at - cut) > NEAR for at in moved)}
    return sorted(moved | others)


def _is_notable(series: _Series, at: int, cuts: Sequence[int]) -> bool:
    """Whether a move is worth trying where there are too many to try them all."""
    return series.jumps.at(at).p <= DOUBTED_P or any(abs(at - cut) <= NEAR for cut in cuts)


def _boundaries(standard: Floats) -> list[int]:
    from ruptures import KernelCPD

    search = KernelCPD(kernel="linear", min_size=SHORTEST).fit(standard)
    return [int(end) for end in search.predict(pen=PENALTY * log(len(standard)))[:-1]]


def _strong(series: _Series, boundaries: Sequence[int]) -> dict[int, _Boundary]:
    """Boundaries that stand, by their places; the weakest goes first."""
    known: dict[tuple[int, int, int], Ratio] = {}
    left = list(boundaries)
    while left:
        evidence = _evidence(series, left, known)
        weak = [at for at in left if not evidence[at].stands]
        if not weak:
            return evidence
        left.remove(max(weak, key=lambda at: evidence[at].weakness))
    return {}


def _evidence(
    series: _Series, boundaries: Sequence[int], known: dict[tuple[int, int, int], Ratio]
) -> dict[int, _Boundary]:
    """What speaks for each boundary while the others stand; `known` keeps what was compared."""
    ends = [0, *boundaries, len(series.logs)]
    stretch = _stretch(series.logs, ends)
    sides = list(zip(ends, ends[1:], ends[2:], strict=False))
    for start, at, end in set(sides) - known.keys():
        known[start, at, end] = shift(series.logs[start:at], series.logs[at:end]).as_ratio()
    return {side[1]: _boundary(series, side, known[side], stretch) for side in sides}


def _boundary(
    series: _Series, side: tuple[int, int, int], plain: Ratio, stretch: float
) -> _Boundary:
    start, at, end = side
    levels, jump = plain.stretch(stretch), series.jumps.at(at)
    alpha = series.moved_p if at in series.moved else SOUGHT_P
    is_lasting = lasts(jump, plain)
    is_odd = at in series.moved and plain.is_significant(alpha=P, floor=0.0)
    return _Boundary(
        levels=levels,
        jump=jump,
        is_level=levels.is_significant(alpha=P, floor=LEAST_CHANGE)
        and is_sudden(series.logs[start:at], series.logs[at:end]),
        is_walk=stretch > _stretch_of(LONG_MEMORY),
        is_jump=is_lasting and jump.is_significant(alpha=alpha, floor=LEAST_CHANGE),
        is_doubted=is_lasting
        and is_odd
        and jump.is_significant(alpha=DOUBTED_P, floor=LEAST_CHANGE),
    )


def _stretch(logs: Floats, ends: Sequence[int]) -> float:
    """How much wider a mean scatters than if each result were for itself.

    The memory of what scatters by less than CREEP counts for little: a GPU whose results creep by
    a few ten-thousandths shows a step of ten percent in a dozen of them.
    """
    memory = _memory(logs, ends)
    if memory <= CHANCE_SIGMAS / sqrt(len(logs)):
        return 1.0
    return _stretch_of(memory)


def _doubt_of(logs: Floats, ends: Sequence[int]) -> float:
    """How much wider still a mean may scatter: the memory of few results is badly known.

    A series is looked at again with each result, and its levels take a part of its memory away. So
    a change is certain if it would be with all the memory that the series may have. In day drift
    that is looked at every night, it leaves 0.3 false changes per 1000 results and not 5.
    """
    memory, levels, count = max(0.0, _memory(logs, ends)), len(ends) - 1, len(logs)
    most = memory + levels * (1 + 3 * memory) / count + CHANCE_SIGMAS / sqrt(count)
    return max(1.0, _stretch_of(min(MOST_MEMORY, most)) / _stretch(logs, ends))


def _memory(logs: Floats, ends: Sequence[int]) -> float:
    """The correlation of a result with the next one, within levels."""
    rest = residuals(logs, ends)
    return float(rest[:-1] @ rest[1:]) / (float(rest @ rest) + len(rest) * CREEP**2)


def _stretch_of(memory: float) -> float:
    return sqrt((1 + memory) / (1 - memory))
