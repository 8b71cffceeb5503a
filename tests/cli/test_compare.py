"""What two timings say about each other."""

from types import SimpleNamespace

import pytest

from vkbench_cli.commands.compare import LEAST_SAMPLES, _may_be_equal
from vkbench_cli.measured import spread


def side(seconds: float, count: int = 30, around: float = 0.01) -> SimpleNamespace:
    low, high = seconds * (1 - around), seconds * (1 + around)
    return SimpleNamespace(seconds=seconds, low=low, high=high, count=count)


@pytest.mark.parametrize(
    ("old", "new", "unsure"),
    [
        (side(1.0), side(1.015), True),
        (side(1.0), side(1.5), False),
        (side(1.0, 1, 0), side(2.0, 1, 0), True),
        (side(1.0), side(2.0, LEAST_SAMPLES - 1), True),
        (side(1.0, LEAST_SAMPLES), side(2.0, LEAST_SAMPLES), False),
        (side(1.0, around=0.0001), side(1.009, around=0.0001), True),
        (side(1.0, around=0.0001), side(0.98, around=0.0001), False),
    ],
)
def test_a_change_is_large_and_sure(
    old: SimpleNamespace, new: SimpleNamespace, unsure: bool
) -> None:
    pair = SimpleNamespace(old=old, new=new, ratio=new.seconds / old.seconds)
    assert _may_be_equal(pair) is unsure


def test_one_sample_has_no_spread() -> None:
    assert spread(side(1.0, 1, 0)) is None
    assert spread(side(2.0, 2)) == pytest.approx(0.01)
