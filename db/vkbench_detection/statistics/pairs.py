"""Stage 2: is what the screen suspects there when old and new are measured side by side, now?

Old and new run in turn, A B B A, so that what drifts over minutes meets both alike. They are looked
at after 4, 8, 12 and 24 pairs: most false suspicions end at the first look, most changes at the
second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle, islice
from math import exp, log

import numpy as np

from vkbench_detection.statistics.ratios import shift
from vkbench_detection.statistics.screen import Direction

LEAST_CHANGE = 0.015  # smaller changes are not reported


class PairVerdict(StrEnum):
    """What timings in pairs say of a suspicion."""

    REGRESSED = "regressed"
    IMPROVED = "improved"
    SAME = "same"
    AMBIGUOUS = "ambiguous"  # there may be something, and no more looks
    MORE = "more"  # measure as many pairs as the next look has


@dataclass(frozen=True, kw_only=True)
class Look:
    """When pairs are looked at, and what decides."""

    pairs: int
    same_below: float  # a smaller change in the suspected direction ends it
    p: float = 0.0  # one-sided; no larger one confirms. 0: too early for that


# Tuned on `selftest`, in both directions at once, which doubles the false alarms that p of 0.001 at
# 8 and 0.005 at 12 pairs let through (0.18 per 1000 results of spiky noise for slow-downs alone).
# The sharper p cost recall of small changes, and the fourth look, which few suspicions reach, gives
# more than that back: with it 3 % at 2 % noise is found within 10 results in 92 of 100 streams, 81
# with three looks of the old p, for 20 % more jobs; and what stays ambiguous falls to a tenth.
LOOKS = (
    Look(pairs=4, same_below=0.005),
    Look(pairs=8, same_below=0.0075, p=0.0004),
    Look(pairs=12, same_below=0.01, p=0.0004),
    Look(pairs=24, same_below=LEAST_CHANGE, p=0.001),
)
FEWEST_PAIRS = next(look.pairs for look in LOOKS if look.p)  # that confirm a change
# Of a bisection, where one wrong step spoils all that follow.
LONG_LOOKS = (
    *LOOKS[:3],
    Look(pairs=24, same_below=0.01, p=0.0007),
    Look(pairs=48, same_below=LEAST_CHANGE, p=0.0007),
)


@dataclass(frozen=True, kw_only=True)
class PairJudgement:
    """What a number of pairs says."""

    verdict: PairVerdict
    ratio: float  # new over old, above 1 slower
    low: float  # of the 95 % interval; 0 and infinity where so few pairs have none
    high: float
    p: float  # one-sided where a direction is suspected, else two-sided
    pairs: int
    next_look: int  # pairs in all that the next look needs; as many as there are if it is over

    @property
    def is_final(self) -> bool:
        """Whether nothing more needs measuring."""
        return self.verdict is not PairVerdict.MORE


def arms(pairs: int) -> tuple[str, ...]:
    """In which order to measure: old new new old, over and over."""
    return tuple(islice(cycle(("old", "new", "new", "old")), 2 * pairs))


def judge(
    old: Sequence[float],
    new: Sequence[float],
    *,
    direction: Direction | None = None,
    looks: Sequence[Look] = LOOKS,
) -> PairJudgement:
    """Judge the times of both arms; `direction` is what is suspected, None either.

    Between two looks the last one that was reached is asked; arms may differ by jobs that failed.
    """
    pairs = min(len(old), len(new))
    if not pairs:
        return _judgement(PairVerdict.MORE, 0.0, (-np.inf, np.inf), 1.0, 0, looks[0].pairs)
    difference = shift(np.log(np.asarray(old)), np.log(np.asarray(new)))
    toward = direction or (Direction.SLOWER if difference.shift >= 0 else Direction.FASTER)
    change = difference.shift if toward is Direction.SLOWER else -difference.shift
    p = difference.above if toward is Direction.SLOWER else difference.below
    p = p if direction else min(1.0, 2 * p)
    reached = [look for look in looks if look.pairs <= pairs]
    verdict = _verdict(reached[-1], toward, change, p) if reached else PairVerdict.MORE
    later = next((look.pairs for look in looks if look.pairs > pairs), None)
    if verdict is PairVerdict.MORE and later is None:
        verdict = PairVerdict.AMBIGUOUS
    size = later if verdict is PairVerdict.MORE and later else pairs
    return _judgement(verdict, difference.shift, (difference.low, difference.high), p, pairs, size)


def _verdict(look: Look, toward: Direction, change: float, p: float) -> PairVerdict:
    if change < log(1 + look.same_below):
        return PairVerdict.SAME
    if p <= look.p and change >= log(1 + LEAST_CHANGE):
        return PairVerdict.REGRESSED if toward is Direction.SLOWER else PairVerdict.IMPROVED
    return PairVerdict.MORE


def _judgement(
    verdict: PairVerdict,
    change: float,
    bounds: tuple[float, float],
    p: float,
    pairs: int,
    next_look: int,
) -> PairJudgement:
    low, high = bounds
    return PairJudgement(
        verdict=verdict,
        ratio=exp(change),
        low=float(np.exp(low)),
        high=float(np.exp(high)),
        p=p,
        pairs=pairs,
        next_look=next_look,
    )
