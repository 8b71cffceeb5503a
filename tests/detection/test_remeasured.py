"""What pairs of one bundle say beside the series that its kernel changed in."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace

import pytest

from vkbench_detection.changes.states import ChangeState
from vkbench_detection.confirm.pairs import PairResults
from vkbench_detection.confirm.remeasured import Remeasured, judged

LEVEL = 1e-3
SCATTER = 0.03


def measured_again(factor: float, *, kernel: str, environment: str = "e") -> Remeasured:
    """A series that scatters by 3 %, and 24 values of now around `factor` of its level."""
    random = Random(5)
    before = [LEVEL * random.gauss(1, SCATTER) for _ in range(30)]
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
        ratio=factor,
        before_kernel="old",
        after_kernel=kernel,
        before_environment="e",
        after_environment=environment,
    )
    return judged(change, found, before, is_same=True)  # type: ignore[arg-type]


@pytest.mark.parametrize(("kernel", "cause"), [("old", "host"), ("new", "kernel")])
def test_a_shift_has_to_be_plain_beside_what_the_series_scatters_by(
    kernel: str, cause: str
) -> None:
    assert measured_again(1.06, kernel=kernel).conclusion.state == ChangeState.AMBIGUOUS
    plain = measured_again(1.2, kernel=kernel).conclusion
    assert (plain.state, plain.cause) == (ChangeState.CONFIRMED, cause)


def test_another_environment_explains_a_small_one() -> None:
    found = measured_again(1.06, kernel="old", environment="other").conclusion
    assert (found.state, found.cause) == (ChangeState.CONFIRMED, "environment")
