"""The lab of the self-test: what it plants, and that it sees a detection that tells the wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vkbench_detection.changes.decisions import Cause
from vkbench_detection.confirm import waiting
from vkbench_detection.confirm.waiting import Arms
from vkbench_detection.statistics.synthetic import Noise
from vkbench_local.selftest.rigs import Rig, Step, stream
from vkbench_local.selftest.score import Row
from vkbench_local.selftest.trial import Part, try_part
from vkbench_local.selftest.truth import bringing, edges, is_slower

NIGHTS = 100
STILL = Noise(name="none", sigma=0.0)


def rig(*steps: Step, away: frozenset[int] = frozenset(), is_gradual: bool = False) -> Rig:
    rng = np.random.default_rng(1)
    made = replace(stream(0, STILL, rng, NIGHTS, steps=steps), is_gradual=is_gradual)
    return Rig(name="rig", streams=[made], away=away, rng=rng)


def test_a_step_that_ends_is_two_changes() -> None:
    [planted] = rig(Step(night=40, until=60, factor=1.1, cause=Cause.KERNEL)).streams
    first, second = edges(planted, "hot", NIGHTS)
    assert (first.night, first.direction, second.night, second.direction) == (
        40, "slower", 60, "faster",
    )  # fmt: skip
    assert first.ratio * second.ratio == pytest.approx(1)


def test_two_causes_in_one_night_are_one_change_of_which_each_has_its_part() -> None:
    steps = [Step(night=40, factor=1.1, cause=cause) for cause in (Cause.KERNEL, Cause.ENVIRONMENT)]
    [edge] = edges(rig(*steps).streams[0], "hot", NIGHTS)
    assert edge.ratio == pytest.approx(1.21)
    assert edge.size(Cause.KERNEL) == pytest.approx(1.1)
    assert edge.size(Cause.UNKNOWN) == pytest.approx(1.21)
    assert set(edge.causes) == {Cause.KERNEL, Cause.ENVIRONMENT, Cause.UNKNOWN}


def test_a_slow_decay_is_one_change_that_any_of_its_bundles_may_have_brought() -> None:
    steps = [Step(night=40 + 3 * n, factor=1.006, cause=Cause.KERNEL) for n in range(4)]
    made = rig(*steps, is_gradual=True)
    [edge] = edges(made.streams[0], "hot", NIGHTS)
    bundles, _ = bringing(made, edge, NIGHTS)
    assert bundles == {made.bundle(40 + 3 * n).sha for n in range(4)}


def test_the_first_bundle_that_was_measured_brought_the_change() -> None:
    slower = Step(night=40, factor=1.1, cause=Cause.KERNEL)
    later = Step(night=42, factor=1.1, cause=Cause.KERNEL)
    made = rig(slower, later, away=frozenset((40, 41)))
    edge, _ = edges(made.streams[0], "hot", NIGHTS)
    assert bringing(made, edge, NIGHTS)[0] == {made.bundle(42).sha}


def test_an_update_that_is_undone_leaves_the_driver_from_before() -> None:
    first = Step(night=40, until=60, factor=1.08, cause=Cause.ENVIRONMENT)
    again = Step(night=70, factor=1.08, cause=Cause.ENVIRONMENT)
    made = rig(first, again)
    assert made.version(39) == made.version(65) != made.version(45) == made.version(80)
    assert is_slower(made, made.streams[0], "hot", NIGHTS)
    assert not is_slower(made, made.streams[0], "hot", 65)


def test_pairs_take_what_their_bundles_take() -> None:
    made = rig(Step(night=40, factor=1.1, cause=Cause.KERNEL))
    [planted] = made.streams
    old, new = (made.arm(planted, "hot", build, 50) for build in (0, 40))
    assert new / old == pytest.approx(1.1)
    assert made.result(planted, "hot", 50) == pytest.approx(new)
    assert planted.kernel(0) != planted.kernel(40)


@pytest.mark.slow
def test_a_detection_that_pairs_a_bundle_with_itself_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the self-test of noise cannot see, which always pairs the true change."""
    real = waiting._arms

    def alike(*words: object) -> Arms | None:
        arms = real(*words)  # type: ignore[arg-type]
        return arms and Arms(old=arms.new, new=arms.new)

    monkeypatch.setattr(waiting, "_arms", alike)
    found = try_part(Part(scenario="kernel steps", seed=1, first=0, devices=1))
    row = Row(name="", about="", score=found)
    assert any(words.startswith("right bundle") for words in row.missed)
