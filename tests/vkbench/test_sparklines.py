"""Sparklines of letters: what they show of values, and of values that hardly differ."""

from __future__ import annotations

import pytest

from vkbench.words.sparklines import MOST, sparkline


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ((), ""),
        ((1.0,), ""),
        ((0.0, 0.0), "▁▁"),
        ((1.0, 2.0, 1.0), "▁█▁"),
        ((1.0, 1.001, 1.002), "▁▁▁"),
        ((0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0), "▁▂▃▄▅▆▇█"),
    ],
)
def test_high_values_are_high_and_small_scatter_is_flat(
    values: tuple[float, ...], drawn: str
) -> None:
    assert sparkline(values) == drawn


def test_only_the_last_values_are_drawn() -> None:
    assert len(sparkline([1.0] * 500)) == MOST
