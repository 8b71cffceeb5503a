"""What pairs of one bundle say beside the series that its kernel changed in."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace

import pytest

from vkbench_detection.changes.states import ChangeState
from vkbench_detection.confirm.levels import levels
from vkbench_detection.confirm.pairs import PairResults
from vkbench_detection.confirm.remeasured import Remeasured, judge_change
from vkbench_detection.series.points import Point

LEVEL = 1e-3
SCATTER = 0.03


def measured_again(
    factor: float, *, kernel: str, environment: str = "e", results: int = 3
) -> Remeasured:
    """A series that scatters by 3 %, and 24 values of now around `factor` of its level."""
    random = Random(5)
    scattered = [LEVEL * random.gauss(1, SCATTER) for _ in range(30)]
    fresh = [LEVEL * factor * random.gauss(1, 0.002) for _ in range(24)]
    found = PairResults(
        old=tuple(fresh[::2]),
        new=tuple(fresh[1::2]),
        old_wrong="",
        new_wrong="",
        failed="",
        pending=0,
    )
    change = SimpleNamespace(
        direction="slower",
        method="screen",
        ratio=factor,
        before_kernel="old",
        after_kernel=kernel,
        is_of_build=False,
        before_environment="e",
        after_environment=environment,
    )
    known = [Point(job, float(job), seconds) for job, seconds in enumerate(scattered)]
    since = [
        Point(job, float(job), LEVEL * factor * random.gauss(1, 0.002)) for job in range(results)
    ]
    before = levels(known, begins=(), since=since)
    return judge_change(change, found, before, is_same=True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kernel", "environment", "cause"),
    [("old", "e", "host"), ("new", "e", "kernel"), ("old", "other", "environment")],
)
def test_a_shift_has_to_be_plain_beside_what_the_series_scatters_by(
    kernel: str, environment: str, cause: str
) -> None:
    """Another driver explains no more than another kernel does: it may have come on a bad day."""
    doubtful = measured_again(1.06, kernel=kernel, environment=environment).conclusion
    assert doubtful.state == ChangeState.AMBIGUOUS
    plain = measured_again(1.2, kernel=kernel, environment=environment).conclusion
    assert (plain.state, plain.cause) == (ChangeState.CONFIRMED, cause)


@pytest.mark.parametrize("environment", ["e", "other"])
def test_what_no_kernel_explains_has_to_last(environment: str) -> None:
    """A host may be busy for a night or two, and also in the night of a new driver."""
    found = measured_again(1.2, kernel="old", environment=environment, results=2).conclusion
    assert found.state == ChangeState.AMBIGUOUS
    kernel = measured_again(1.2, kernel="new", results=1).conclusion
    assert (kernel.state, kernel.cause) == (ChangeState.CONFIRMED, "kernel")


def point(job: int, seconds: float) -> Point:
    return Point(job, float(job), seconds)


def test_a_level_begins_with_the_last_confirmed_change() -> None:
    """Five results of it, which scatter as those of the levels before do."""
    random = Random(3)
    high = [point(n, 2e-3 * random.gauss(1, 0.01)) for n in range(20)]
    low = [point(n, 1e-3 * random.gauss(1, 0.01)) for n in range(20, 25)]
    found = levels([*high, *low], begins={20}, since=())
    assert len(found.segment) == 5
    assert len(found.seconds) == 25
    assert max(found.seconds) < 1.1e-3
    assert not levels(low, begins={20}, since=()).are_enough
