"""A shift of a series' history never moves a change to where another change of the series lies."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from vkbench_detection.changes.change_point import ChangePoint
from vkbench_detection.changes.states import ChangeState
from vkbench_detection.find.shifts import History, judge_shifts
from vkbench_detection.series.points import Origin, Point

STEP = 30  # the first result with another kernel, which is slower
POINTS = 48


def history(taken: set[int]) -> History:
    """A series that became slower with job STEP; a suspicion of that lay two results before it."""
    rng = random.Random(4)
    points = [
        Point(job, float(job), (1.05 if job >= STEP else 1.0) * rng.gauss(1e-3, 3e-6))
        for job in range(POINTS)
    ]
    suspicion = ChangePoint(
        id=1, series_id=1, method="screen", direction="slower", before_job=STEP - 3,
        after_job=STEP - 2, before_kernel="old", after_kernel="old", before_bundle="",
        after_bundle="", before_environment="", after_environment="", found_at=0.0, ratio=1.02,
        low=None, high=None, p=None, state=ChangeState.DISMISSED, cause="",
    )  # fmt: skip
    return History(
        series=1,
        device=1,
        is_pairable=True,
        points=points,
        known=[suspicion],
        taken={suspicion.after_job, *taken},
        measured={1},
        decided={1: float(STEP - 2)},
        origins={job: Origin(kernel="new" if job >= STEP else "old") for job in range(POINTS)},
    )


def test_a_suspicion_moves_to_where_the_kernel_moved() -> None:
    [again] = judge_shifts(history(set()), is_served=True).reopenings
    assert again.between == (STEP - 1, STEP)


def test_history_alone_confirms_a_kernel_and_suspects_a_build() -> None:
    """On a device that no worker serves, as of imported results."""
    kernels = replace(history(set()), known=[], taken=set(), measured=set(), decided={})
    builds = replace(
        kernels,
        origins={
            job: Origin(kernel="new" if job >= STEP else "old", bundle=bundle)
            for job in range(POINTS)
            for bundle in ["new" if job >= STEP else "old"]
        },
    )
    [of_kernel] = judge_shifts(kernels, is_served=False).suspicions
    assert of_kernel.conclusion
    assert of_kernel.conclusion.state == ChangeState.CONFIRMED
    [of_build] = judge_shifts(builds, is_served=False).suspicions
    assert of_build.conclusion is None
    assert of_build.note.endswith("not confirmed until pairs of both builds are measured")


@pytest.mark.parametrize("is_served", [True, False])
def test_not_to_where_slow_decay_was_found(is_served: bool) -> None:
    """Two changes of a series at one place broke the pass over histories, every time."""
    outcome = judge_shifts(history({STEP}), is_served=is_served)
    assert [each.between for each in outcome.reopenings if each.between] == []
    assert [each.between for each in outcome.decisions if each.between] == []
