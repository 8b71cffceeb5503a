"""Numbers for people keep their figures, and a column has one scale."""

from __future__ import annotations

import pytest

from vkbench.words.units import count_of, rate_column, ratio, seconds_column, significant


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1.000"),
        (9.99996, "10.00"),
        (123.456, "123.5"),
        (123456.7, "123457"),
        (0.001234567, "0.001235"),
        (-0.5, "-0.5000"),
        (1.5e-7, "1.500e-07"),
        (3e12, "3.000e+12"),
    ],
)
def test_significant(value: float, text: str) -> None:
    assert significant(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0041, "1.004"),
        (1.015, "1.015"),
        (0.9959, "0.996"),
        (12.345, "12.35"),
        (0.04321, "0.04321"),
    ],
)
def test_a_ratio_near_one_is_told_from_one(value: float, text: str) -> None:
    assert ratio(value) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 changes"), (1, "1 change"), (2, "2 changes")])
def test_counted(count: int, text: str) -> None:
    assert count_of(count, "change") == text


def test_a_column_has_the_scale_of_its_median() -> None:
    unit, cells = seconds_column([1.2e-3, 4.5e-6, 3.0e-6, None])
    assert unit == "us"
    assert cells == ["1200", "4.500", "3.000", ""]


def test_rates() -> None:
    assert rate_column([2.5e12], "B/s") == ("TB/s", ["2.500"])
    assert rate_column([12.0], "B/s") == ("B/s", ["12.00"])


def test_columns_without_a_number() -> None:
    assert seconds_column([]) == ("s", [])
    assert seconds_column([None, 0.0]) == ("s", ["", "0"])
