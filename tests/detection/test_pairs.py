"""Pairs of jobs: verdicts, looks and both directions."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
import pytest

from vkbench_detection.statistics import pairs
from vkbench_detection.statistics.pairs import (
    LONG_LOOKS,
    LOOKS,
    Look,
    PairJudgement,
    PairVerdict,
    judge,
)
from vkbench_detection.statistics.screen import Direction

MIRROR = {
    PairVerdict.REGRESSED: PairVerdict.IMPROVED,
    PairVerdict.IMPROVED: PairVerdict.REGRESSED,
    PairVerdict.SAME: PairVerdict.SAME,
    PairVerdict.AMBIGUOUS: PairVerdict.AMBIGUOUS,
    PairVerdict.MORE: PairVerdict.MORE,
}


def times(seed: int, count: int, sigma: float = 0.01, factor: float = 1.0) -> list[float]:
    values = factor * np.exp(np.random.default_rng(seed).normal(-7, sigma, count))
    return [float(value) for value in values]


def settled(
    seed: int, sigma: float, factor: float, direction: Direction, looks: Sequence[Look] = LOOKS
) -> PairJudgement:
    """What the pairs say in the end, measured look by look."""
    old, new = times(seed, 48, sigma), times(seed + 10_000, 48, sigma, factor)
    wanted = looks[0].pairs
    while not (
        told := judge(old[:wanted], new[:wanted], direction=direction, looks=looks)
    ).is_final:
        assert told.next_look > wanted
        wanted = told.next_look
    return told


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.05, PairVerdict.REGRESSED), (1 / 1.05, PairVerdict.IMPROVED)]
)
@pytest.mark.parametrize("direction", [None, "suspected"])
def test_a_clear_change_is_decided_at_the_second_look(
    factor: float, verdict: PairVerdict, direction: str | None
) -> None:
    suspected = Direction.SLOWER if factor > 1 else Direction.FASTER
    old, new = times(1, 8), times(2, 8, factor=factor)
    toward = suspected if direction else None
    first = judge(old[:4], new[:4], direction=toward)
    assert (first.verdict, first.next_look, first.is_final) == (PairVerdict.MORE, 8, False)
    second = judge(old, new, direction=toward)
    assert (second.verdict, second.pairs, second.next_look) == (verdict, 8, 8)
    assert second.ratio == pytest.approx(factor, rel=0.01)
    assert second.low < second.ratio < second.high
    assert second.low > 1 or second.high < 1


def test_the_other_direction_than_suspected_ends_it() -> None:
    told = judge(times(1, 4), times(2, 4, factor=0.9), direction=Direction.SLOWER)
    assert told.verdict is PairVerdict.SAME
    assert told.p > 0.5


def test_equal_arms_are_the_same() -> None:
    told = judge([1e-3] * 4, [1e-3] * 4)
    assert (told.verdict, told.ratio, told.p) == (PairVerdict.SAME, 1.0, 1.0)


def test_a_change_too_small_to_matter_is_the_same_however_certain() -> None:
    told = judge(times(1, 24, 0.001), times(2, 24, 0.001, 1.013), direction=Direction.SLOWER)
    assert told.p < 1e-9
    assert told.verdict is PairVerdict.SAME


def test_what_no_look_settles_is_ambiguous() -> None:
    old = [1.0, 1.1] * 12
    new = [1.03, 1.13] * 12
    told = judge(old, new, direction=Direction.SLOWER)
    assert told.verdict is PairVerdict.AMBIGUOUS
    assert told.is_final
    assert judge(old, new, direction=Direction.SLOWER, looks=LONG_LOOKS).next_look == 48


@pytest.mark.parametrize("count", [0, 1, 3])
def test_too_few_pairs_want_more(count: int) -> None:
    told = judge(times(1, count), times(2, count, factor=2.0))
    assert (told.verdict, told.next_look) == (PairVerdict.MORE, 4)
    assert (told.low, told.high) == (0.0, inf)


def test_arms_may_have_lost_jobs() -> None:
    told = judge(times(1, 9), times(2, 8, factor=1.1), direction=Direction.SLOWER)
    assert (told.verdict, told.pairs) == (PairVerdict.REGRESSED, 8)


def test_p_is_that_of_the_exact_test() -> None:
    from scipy.stats import mannwhitneyu  # over a second, in each process that collects tests

    old, new = times(3, 8, 0.05), times(4, 8, 0.05, 1.06)
    wanted = mannwhitneyu(new, old, alternative="greater", method="exact").pvalue
    assert judge(old, new, direction=Direction.SLOWER).p == pytest.approx(float(wanted))


@pytest.mark.parametrize("count", [4, 5, 8, 12, 24])
@pytest.mark.parametrize("factor", [1.0, 1.02, 1.06])
def test_slower_and_faster_are_mirror_images(count: int, factor: float) -> None:
    old, new = times(5, count, 0.02), times(6, count, 0.02, factor)
    for one, other in (
        (judge(old, new), judge(new, old)),
        (
            judge(old, new, direction=Direction.SLOWER),
            judge(new, old, direction=Direction.FASTER),
        ),
    ):
        assert other.verdict is MIRROR[one.verdict]
        assert other.ratio == pytest.approx(1 / one.ratio)
        assert other.p == pytest.approx(one.p)
        assert (other.low, other.high) == pytest.approx((1 / one.high, 1 / one.low))


def test_the_unit_of_time_does_not_matter() -> None:
    old, new = times(7, 8), times(8, 8, factor=1.03)
    one, other = judge(old, new), judge([v * 1e9 for v in old], [v * 1e9 for v in new])
    assert (one.verdict, one.ratio) == (other.verdict, pytest.approx(other.ratio))


@pytest.mark.parametrize("direction", list(Direction))
def test_nothing_is_rarely_confirmed(direction: Direction) -> None:
    told = [settled(seed, 0.02, 1.0, direction) for seed in range(500)]
    confirmed = [t for t in told if t.verdict in (PairVerdict.REGRESSED, PairVerdict.IMPROVED)]
    assert len(confirmed) <= 3  # 0.5 are expected
    assert sum(t.verdict is PairVerdict.SAME for t in told) > 480
    assert sum(t.pairs for t in told) / len(told) < 8


@pytest.mark.parametrize("direction", list(Direction))
def test_changes_are_confirmed(direction: Direction) -> None:
    factor = 1.05 if direction is Direction.SLOWER else 1 / 1.05
    told = [settled(seed, 0.02, factor, direction) for seed in range(200)]
    wanted = PairVerdict.REGRESSED if direction is Direction.SLOWER else PairVerdict.IMPROVED
    assert sum(t.verdict is wanted for t in told) > 190


def test_a_bisection_sees_smaller_changes() -> None:
    short = [settled(seed, 0.02, 1.025, Direction.SLOWER) for seed in range(100)]
    long = [settled(seed, 0.02, 1.025, Direction.SLOWER, LONG_LOOKS) for seed in range(100)]
    found = [sum(t.verdict is PairVerdict.REGRESSED for t in told) for told in (short, long)]
    assert found[1] > found[0]


def test_arms_take_turns() -> None:
    assert pairs.arms(3) == ("old", "new", "new", "old", "old", "new")
