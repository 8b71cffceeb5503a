"""The screen: what raises an alarm and what does not, and how its state lives."""

from __future__ import annotations

import json
import time
from math import exp, log

import numpy as np
import pytest

from vkbench_detection.statistics import screen
from vkbench_detection.statistics.screen import Alarm, Direction, Rule, ScreenState

SIGMA = 0.01


def noise(seed: int, count: int, sigma: float = SIGMA) -> list[float]:
    """Logarithms of times that are 1 ms on average."""
    values = np.random.default_rng(seed).normal(log(1e-3), sigma, count)
    return [float(value) for value in values]


def screened(
    values: list[float], state: ScreenState | None = None
) -> tuple[ScreenState, list[Alarm]]:
    """All alarms of some results, none of them answered."""
    state = state or ScreenState()
    alarms = []
    for value in values:
        state, alarm = screen.step(state, value)
        alarms += [alarm] if alarm else []
    return state, alarms


@pytest.mark.parametrize("sign", [1, -1])
def test_one_result_far_off_is_a_jump(sign: int) -> None:
    state = screen.replay_values(noise(1, 60))
    _, alarm = screen.step(state, log(1e-3) + sign * 0.1)
    assert alarm
    assert alarm.direction is (Direction.SLOWER if sign > 0 else Direction.FASTER)
    assert (alarm.rule, alarm.index, alarm.since) == (Rule.JUMP, 60, 60)
    assert alarm.ratio == pytest.approx(exp(sign * 0.1), rel=0.01)
    assert sign * alarm.sigmas > 5


@pytest.mark.parametrize("sign", [1, -1])
def test_a_small_lasting_change_is_a_drift_that_began_where_it_did(sign: int) -> None:
    state = screen.replay_values([log(1e-3) + SIGMA * (-1) ** n for n in range(60)])
    shifted = log(1e-3) + sign * 0.02
    _, alarms = screened([shifted] * 5, state)
    assert [alarm.rule for alarm in alarms] == [Rule.DRIFT]
    assert alarms[0].direction is (Direction.SLOWER if sign > 0 else Direction.FASTER)
    assert (alarms[0].since, alarms[0].index) == (60, 63)


def test_changes_too_small_to_matter_raise_nothing_however_quiet_the_series() -> None:
    state = screen.replay_values([log(1e-3)] * 60)
    assert screened([log(1e-3 * 1.011)] * 15, state)[1] == []
    assert screened([log(1e-3 / 1.011)] * 15, state)[1] == []


def test_nothing_is_screened_before_there_is_a_level() -> None:
    state, alarms = screened([*noise(2, screen.LEAST - 1), log(5e-3)])
    assert alarms == []
    assert state.is_ready
    assert not screened(noise(2, screen.LEAST - 1))[0].is_ready


def test_the_level_lags_so_that_a_change_does_not_become_it_unseen() -> None:
    state = screen.replay_values(noise(3, 60))
    before, _ = screen.reference(state.values)
    for value in noise(4, screen.LAG):
        state, _ = screen.step(state, value + 0.02)
    after, _ = screen.reference(state.values)
    assert after == pytest.approx(before, abs=0.005)


def test_wild_results_do_not_widen_sigma() -> None:
    calm = noise(5, screen.KEPT)
    wild = [value + (0.2 if n % 10 == 0 else 0) for n, value in enumerate(calm)]
    quiet, noisy = screen.reference(tuple(calm))[1], screen.reference(tuple(wild))[1]
    assert quiet == pytest.approx(SIGMA, rel=0.3)
    assert noisy == pytest.approx(quiet, rel=0.3)


def test_equal_results_have_the_least_sigma() -> None:
    assert screen.reference((log(1e-3),) * 50)[1] == screen.SIGMA_FLOOR


def test_after_an_alarm_two_results_are_skipped_unless_it_is_dismissed() -> None:
    state, alarm = screen.step(screen.replay_values(noise(6, 60)), log(1.1e-3))
    assert alarm
    far = [log(1.1e-3)] * 3
    assert [a.index for a in screened(far, state)[1]] == [63]
    assert screened(far[:1], screen.after_dismissal(state))[1]


@pytest.mark.parametrize("seed", range(5))
def test_slower_and_faster_are_mirror_images(seed: int) -> None:
    values = noise(seed, 300, 0.02)
    values = values[:150] + [value + 0.05 for value in values[150:]]
    one, other = screened(values)[1], screened([-value for value in values])[1]
    assert len(one) > 1
    assert [a.direction for a in one] != [a.direction for a in other]
    assert [(a.rule, a.index, a.since) for a in one] == [(b.rule, b.index, b.since) for b in other]
    assert [a.ratio * b.ratio for a, b in zip(one, other, strict=True)] == pytest.approx(
        [1] * len(one)
    )


@pytest.mark.parametrize("factor", [1e-6, 1e4])
def test_the_unit_of_time_does_not_matter(factor: float) -> None:
    values = noise(7, 300, 0.02)
    there = screened([value + log(factor) for value in values])[1]
    assert [(a.rule, a.index) for a in there] == [(a.rule, a.index) for a in screened(values)[1]]


def test_a_state_through_json_decides_the_same() -> None:
    values = [value + (0.1 if n % 37 == 36 else 0) for n, value in enumerate(noise(8, 400, 0.02))]
    kept = through = ScreenState()
    alarms = 0
    for value in values:
        through = ScreenState.from_plain(json.loads(json.dumps(through.to_plain())))
        assert through == kept
        kept, alarm = screen.step(kept, value)
        through, same = screen.step(through, value)
        assert same == alarm
        alarms += alarm is not None
    assert alarms > 5
    assert kept.refused


def test_a_state_stays_small() -> None:
    state, _ = screened(noise(9, 1000))
    for value in noise(10, 200):
        state = screen.step(state, value + 1.0)[0]
    assert len(state.values) == len(state.indices) == len(state.refused) == screen.KEPT
    assert len(json.dumps(state.to_plain())) < 5000


def test_a_change_begins_a_segment_with_all_of_its_results() -> None:
    values = noise(11, 60) + [value + 0.1 for value in noise(12, 4)]
    state, alarms = screened(values)
    begun = screen.after_change(state, alarms[0].since)
    assert (begun.start, begun.count) == (60, 64)
    assert begun.values == tuple(values[60:])  # though they were refused as part of the old level
    assert begun.indices == (60, 61, 62, 63)
    assert not begun.is_ready
    more, alarms = screened([value + 0.1 for value in noise(13, 60)], begun)
    assert all(0.95 < alarm.ratio < 1.05 for alarm in alarms)
    assert screen.step(more, log(1e-3))[1]


def test_a_dismissed_alarm_leaves_the_level() -> None:
    state, _ = screened([*noise(14, 60), log(1.2e-3)])
    after = screen.after_dismissal(state)
    assert (after.start, after.values) == (state.start, state.values)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_device_that_moved_raises_few_alarms_and_then_has_a_new_level(sign: int) -> None:
    state = screen.replay_values(noise(15, 60))
    alarms = 0
    for value in noise(16, 60):
        state, alarm = screen.step(state, value + sign * 0.1)
        if alarm:
            alarms += 1
            state = screen.after_dismissal(state)
    assert state.start == 60
    assert alarms <= screen.MOVED + 3


def test_outliers_to_both_sides_are_no_new_level() -> None:
    state = screen.replay_values(noise(17, 60))
    for n in range(10):
        state, _ = screen.step(state, log(1e-3) + 0.1 * (-1) ** n)
        state = screen.after_dismissal(state)
    assert state.start == 0


def test_a_history_that_is_known_to_be_good_raises_nothing_later() -> None:
    state = screen.replay_values([value + 0.01 * (n > 55) for n, value in enumerate(noise(18, 60))])
    assert (state.count, state.ewma, state.skip) == (60, 0.0, 0)


def test_screening_costs_little() -> None:
    values = noise(19, 6000)
    began = time.process_time()
    screened(values)
    assert time.process_time() - began < 1.5  # 15 us a result where this was written
