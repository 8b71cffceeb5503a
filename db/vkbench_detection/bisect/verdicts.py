"""What the pairs of one step of a bisection say of its bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite

from vkbench_detection.confirm.pairs import PairResults
from vkbench_detection.statistics.pairs import LONG_LOOKS, PairJudgement, PairVerdict, judge
from vkbench_detection.statistics.screen import Direction

MOST_PAIRS = 2 * LONG_LOOKS[-1].pairs  # asked for in a step, those that give no times too

# On a busy host a bundle 1.35 times as slow looked no slower after 4 pairs, which left 0.5 to 1.7
# open: 3 of 100 do where a side in three takes up to twice as long. None does with this.
NO_SLOWER = 1.05  # what the pairs of such a bundle exclude, where the change is not known


class StepVerdict(StrEnum):
    """What a bundle is, beside the good one."""

    GOOD = "good"
    BAD = "bad"  # slower
    WRONG = "wrong"  # its outputs are
    FAILED = "failed"  # its pairs crash, lose the device or run into their limit
    AMBIGUOUS = "ambiguous"  # pairs failed, or were not certain after all looks


@dataclass(frozen=True, kw_only=True)
class StepJudgement:
    """The verdict on a bundle, and what it was reached from."""

    verdict: StepVerdict
    note: str = ""
    # None of wrong or failed ones, and where nothing was measured
    pairs: PairJudgement | None = None

    @property
    def figures(self) -> Mapping[str, float | None]:
        """Pairs, ratio, its bounds where there are any, and p; nothing where nothing was timed."""
        if self.pairs is None:
            return {}
        return {
            "pairs": self.pairs.pairs,
            "ratio": self.pairs.ratio,
            "low": self.pairs.low if self.pairs.low > 0 else None,
            "high": self.pairs.high if isfinite(self.pairs.high) else None,
            "p": self.pairs.p,
        }


def judge_step(
    results: PairResults, pairs: int, *, least_ratio: float = 0.0, seeks_wrong: bool = False
) -> StepJudgement | int:
    """What `pairs` pairs say, or how many more are needed; 0: wait for those under way.

    A bundle whose ratio is certainly below `least_ratio` did not bring the change that is looked
    for: where the pairs leave open whether it is a little slower, it is good. One that looks no
    slower is measured on while the pairs leave open whether it brought that change. Where a wrong
    one is looked for, one that was right in all pairs is good, however fast it is.
    """
    if results.new_wrong:
        return StepJudgement(verdict=StepVerdict.WRONG, note=results.new_wrong)
    if results.crashed:
        return StepJudgement(verdict=StepVerdict.FAILED, note=results.crashed)
    if results.pending and not results.failed:
        return 0
    compared = judge(results.old, results.new, direction=Direction.SLOWER, looks=LONG_LOOKS)
    if seeks_wrong and compared.pairs:
        return StepJudgement(verdict=StepVerdict.GOOD, note="it is right", pairs=compared)
    match compared.verdict:
        case PairVerdict.REGRESSED:
            return StepJudgement(verdict=StepVerdict.BAD, pairs=compared)
        case PairVerdict.SAME | PairVerdict.IMPROVED:
            more = 0 if results.failed else _more_to_exclude(least_ratio or NO_SLOWER, compared)
            more_pairs = min(more, MOST_PAIRS - pairs)
            return more_pairs or StepJudgement(verdict=StepVerdict.GOOD, pairs=compared)
    if not (results.failed or compared.is_final or pairs >= MOST_PAIRS):
        return min(compared.next_look - compared.pairs, MOST_PAIRS - pairs)
    if compared.is_final and compared.high < least_ratio:
        note = f"may be a little slower, and surely less than {least_ratio:.2f} times"
        return StepJudgement(verdict=StepVerdict.GOOD, note=note, pairs=compared)
    why = results.failed or f"nothing certain after {compared.pairs} pairs"
    if not (results.failed or compared.is_final):  # a worker that times nothing, and fails no job
        why = f"only {compared.pairs} of {pairs} pairs gave times"
    measured = compared if compared.pairs else None
    return StepJudgement(verdict=StepVerdict.AMBIGUOUS, note=why, pairs=measured)


def _more_to_exclude(ratio: float, compared: PairJudgement) -> int:
    """How many more pairs the next look has, if these do not exclude a ratio."""
    if compared.high < ratio:
        return 0
    later = (look.pairs for look in LONG_LOOKS if look.pairs > compared.pairs)
    return next(later, compared.pairs) - compared.pairs
