"""Sizes of confirmed changes: on average the true ones, in intervals that cover them."""

from __future__ import annotations

from collections.abc import Iterator
from math import log
from types import SimpleNamespace

import numpy as np
import pytest

from vkbench_detection.changes.states import ChangeState
from vkbench_detection.confirm.levels import Before
from vkbench_detection.confirm.pairs import PairResults
from vkbench_detection.confirm.remeasured import Remeasured, judge_change
from vkbench_detection.statistics.pairs import LOOKS
from vkbench_detection.statistics.ratios import Floats
from vkbench_detection.statistics.sizes import LATER

TRUE = 0.01
NOISE = 0.01
TRIALS = 2000


def judgement(old: Floats, new: Floats, pairs: int) -> Remeasured:
    found = PairResults(
        old=tuple(np.exp(old[:pairs]).tolist()),
        new=tuple(np.exp(new[:pairs]).tolist()),
        old_wrong="",
        new_wrong="",
        failed="",
        pending=0,
    )
    change = SimpleNamespace(
        is_of_build=False,
        direction="slower",
        method="screen",
        ratio=1.01,
        before_kernel="k",
        after_kernel="l",
        before_environment="e",
        after_environment="e",
    )
    before = Before(segment=np.zeros(30), earlier=np.zeros(0), since=np.zeros(3))
    return judge_change(change, found, before, is_same=False)  # type: ignore[arg-type]


def ended(old: Floats, new: Floats) -> tuple[Remeasured, int]:
    """What is concluded, asking for more as the scheduler does; and after how many pairs."""
    pairs = LOOKS[0].pairs
    while (found := judgement(old, new, pairs)).more:
        pairs += found.more
    return found, pairs


def trials(true: float) -> Iterator[tuple[Remeasured, int]]:
    rng = np.random.default_rng(3)
    for _ in range(TRIALS):
        yield ended(*rng.normal([[0.0], [log(1 + true)]], NOISE, (2, 48)))


@pytest.mark.slow
def test_a_small_change_is_not_told_as_a_larger_one() -> None:
    """The pairs that confirm a true 1 % at 1 % noise say 1.8 %, and cover it in two of three."""
    sizes = [
        found.figures
        for found, _ in trials(TRUE)
        if found.conclusion.state == ChangeState.CONFIRMED
    ]
    assert len(sizes) > 100
    assert np.mean([size["ratio"] or 0.0 for size in sizes]) == pytest.approx(1 + TRUE, abs=0.002)
    covered = [(size["low"] or 0) <= 1 + TRUE <= (size["high"] or 0) for size in sizes]
    assert np.mean(covered) >= 0.9


def drawn(true: float, later: float) -> tuple[Floats, Floats]:
    """Pairs of which the first eight have one change, and those after them another."""
    old, new = np.random.default_rng(1).normal([[0.0], [true]], NOISE / 4, (2, 48))
    new[8:] += later - true
    return old, new


def test_pairs_after_the_decision_tell_the_size_of_a_small_change() -> None:
    found, pairs = ended(*drawn(0.025, 0.015))
    assert pairs == 8 + LATER
    assert found.conclusion.state == ChangeState.CONFIRMED
    assert found.figures["ratio"] == pytest.approx(1.015, abs=0.003)


def test_a_large_change_needs_no_more_pairs() -> None:
    found, pairs = ended(*drawn(0.05, 0.05))
    assert pairs == 8
    assert found.figures["ratio"] == pytest.approx(1.05, abs=0.005)


def test_pairs_that_go_the_other_way_afterwards_leave_it_ambiguous() -> None:
    found, _ = ended(*drawn(0.025, -0.02))
    assert found.conclusion.state == ChangeState.AMBIGUOUS
    assert "do not" in found.conclusion.note


def test_without_the_later_pairs_the_change_is_confirmed_as_far_as_known() -> None:
    found = judgement(*drawn(0.025, 0.025), pairs=8)
    assert found.more == LATER
    assert found.conclusion.state == ChangeState.CONFIRMED
