"""Scores the detection in a simulated lab: planted changes found, missed and invented.

The targets are declared here. All scenarios together are held to them as they are; one scenario,
which has few changes and few false ones, misses a target only by more than chance explains. What
pairs cost is a sum over a lab's nights: ten kernels in a row that are each a little slower, all in
one series, take more than their share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import comb, fsum
from statistics import median

from vkbench_detection.changes.decisions import Cause

RIGHT_PLACE = 0.95  # of changes, with the bundle or the driver that brought them, at least
RIGHT_CAUSE = 0.97
BLAMED_PER_1000 = 0.2  # results: changes that are none, blamed on a kernel or a driver, at most
FALSE_PER_1000 = 1.0  # of any cause
PAIRS_PER_100 = 20.0  # results
COVERED = 0.9  # of told sizes, whose 95 % intervals hold the true ones, at least
LEAST_SIZES = 20  # of a scenario that tell such a share
CHANCE = 0.05  # of a scenario that meets a target to look as if it missed it
TARGETS = (
    f"right bundle ≥ {RIGHT_PLACE:.0%}",
    f"right cause ≥ {RIGHT_CAUSE:.0%}",
    f"size covered ≥ {COVERED:.0%}",
    f"false ≤ {FALSE_PER_1000:g}/1000",
    f"blamed on a kernel or driver ≤ {BLAMED_PER_1000:g}/1000",
    f"pairs of all ≤ {PAIRS_PER_100:g}/100",
)
BLAMED = (Cause.KERNEL, Cause.ENVIRONMENT, Cause.UNKNOWN)


class Answer(StrEnum):
    """What became of a planted change, the best first."""

    RIGHT = "right"  # its cause, and the bundle or driver that brought it
    MISPLACED = "misplaced"  # its cause, with another bundle or driver, or with none
    BLAMED = "blamed"  # another cause
    AMBIGUOUS = "ambiguous"  # listed as uncertain
    NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one planted change."""

    answer: Answer
    nights: int | None = None  # until it was told


@dataclass(frozen=True, kw_only=True)
class Size:
    """The size of a planted change, and what was told of it."""

    truth: float  # ratio of the levels
    estimate: float
    is_covered: bool  # whether the told interval holds the truth


@dataclass(frozen=True, kw_only=True)
class Score:
    """All that a lab shows."""

    outcomes: Sequence[Outcome] = ()  # of changes that people have to hear of
    sizes: Sequence[Size] = ()  # of all changes that were told with their cause
    false: Mapping[str, int] = field(default_factory=dict)  # changes that were none, by cause
    states_right: int = 0  # changed series whose regressions end open, or over, as they should
    states: int = 0
    series: int = 0
    results: int = 0
    pairs: int = 0

    def plus(self, other: Score) -> Score:
        """The sum of two scores."""
        return Score(
            outcomes=(*self.outcomes, *other.outcomes),
            sizes=(*self.sizes, *other.sizes),
            false=Counter(self.false) + Counter(other.false),
            states_right=self.states_right + other.states_right,
            states=self.states + other.states,
            series=self.series + other.series,
            results=self.results + other.results,
            pairs=self.pairs + other.pairs,
        )


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one scenario shows, or all of them."""

    name: str
    about: str
    score: Score
    is_whole: bool = False  # whether it has all scenarios

    def share(self, *answers: Answer) -> float | None:
        """Share of the planted changes that became one of these; None where none was planted."""
        outcomes = self.score.outcomes
        if not outcomes:
            return None
        return sum(outcome.answer in answers for outcome in outcomes) / len(outcomes)

    @property
    def right_place(self) -> float | None:
        """Share of changes told with their cause, and with what brought them."""
        return self.share(Answer.RIGHT)

    @property
    def right_cause(self) -> float | None:
        """Share of changes told with their cause."""
        return self.share(Answer.RIGHT, Answer.MISPLACED)

    @property
    def right_state(self) -> float | None:
        """Share of changed series whose regressions end open, or over, as they should."""
        right, total = self.score.states_right, self.score.states
        return right / total if total else None

    @property
    def nights(self) -> float | None:
        """Median of the nights until a change was told."""
        delays = [outcome.nights for outcome in self.score.outcomes if outcome.nights is not None]
        return median(delays) if delays else None

    @property
    def covered(self) -> float | None:
        """Share of the told sizes whose intervals hold the true one."""
        sizes = self.score.sizes
        return sum(size.is_covered for size in sizes) / len(sizes) if sizes else None

    def false_per_1000(self, *causes: str) -> float:
        """Changes of these causes that were none, for each thousand results."""
        changes = sum(count for cause, count in self.score.false.items() if cause in causes)
        return 1000 * changes / self.score.results

    @property
    def blamed_per_1000(self) -> float:
        """Changes blamed on a kernel or a driver that were none, for each thousand results."""
        return self.false_per_1000(*BLAMED)

    @property
    def all_false_per_1000(self) -> float:
        """Changes of any cause that were none, for each thousand results."""
        return self.false_per_1000(*self.score.false)

    @property
    def pairs_per_100(self) -> float:
        """Paired jobs for each hundred results."""
        return 100 * self.score.pairs / self.score.results

    @property
    def missed(self) -> list[str]:
        """The targets that the scenario misses."""
        outcomes, sizes = self.score.outcomes, self.score.sizes
        right = [item.answer is Answer.RIGHT for item in outcomes]
        blames = [item.answer in (Answer.RIGHT, Answer.MISPLACED) for item in outcomes]
        met = (
            self._is_share(right, RIGHT_PLACE),
            self._is_share(blames, RIGHT_CAUSE),
            self._is_share([size.is_covered for size in sizes], COVERED)
            or (not self.is_whole and len(sizes) < LEAST_SIZES),
            self._is_rate(sum(self.score.false.values()), FALSE_PER_1000),
            self._is_rate(sum(self.score.false.get(item, 0) for item in BLAMED), BLAMED_PER_1000),
            not self.is_whole or self.pairs_per_100 <= PAIRS_PER_100,
        )
        return [words for words, is_met in zip(TARGETS, met, strict=True) if not is_met]

    def _is_share(self, good: Sequence[bool], least: float) -> bool:
        """Whether the share of good ones is reached, or missed by chance alone."""
        if self.is_whole:
            return sum(good) >= least * len(good)
        return binomial_tail(len(good) - sum(good), len(good), 1 - least) >= CHANCE

    def _is_rate(self, count: int, most_per_1000: float) -> bool:
        """Whether the rate is low enough, or too high by chance alone."""
        expected = most_per_1000 * self.score.results / 1000
        if self.is_whole:
            return count <= expected
        return binomial_tail(count, self.score.results, most_per_1000 / 1000) >= CHANCE


def binomial_tail(count: int, total: int, share: float) -> float:
    """How likely so many or more of `total` are, where each is with the probability `share`."""
    fewer = (comb(total, n) * share**n * (1 - share) ** (total - n) for n in range(count))
    return max(0.0, 1.0 - fsum(fewer))
