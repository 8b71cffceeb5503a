"""Formulas of declarations: what they give, and what is none."""

from __future__ import annotations

import pytest

from vkbench_shaders.own.formulas import Formula, Number, value_of, whole_number
from vkbench_shaders.own.records import UnfitDeclaration

NAMES = {"m": 10, "k": 96, "eps": 0.5}


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        (7, 7),
        ("m", 10),
        ("2 * m + k // 7 - 1", 32),
        ("ceil_div(k, 64) * max(1, min(m, 3))", 6),
        ("-m % 3", 2),
        ("eps / 4", 0.125),
        ("(m + k) * 1e3", 106_000.0),
        ("ceil_log2(1) + 10 * ceil_log2(64) + 1000 * ceil_log2(65)", 7060),
        ("pow(2, 32) * (pow(2, ceil_log2(m)) - m) // m + 1", 2_576_980_378),
        ("pow(2, -m / 20)", 0.5**0.5),
    ],
)
def test_a_formula_gives_a_number(formula: Formula, value: Number) -> None:
    assert value_of(formula, NAMES) == value


@pytest.mark.parametrize(
    ("formula", "complaint"),
    [
        ("n", "names n, which is none of m, k, eps"),
        ("m ** 2", "is no formula"),
        ("m << 2", "is no formula"),
        ("m if k else 1", "is no formula"),
        ("pow(-2, 0.5)", "is no formula"),
        ("ceil_log2(0)", "is no formula"),
        ("pow(0, -1)", "divides by zero"),
        ("pow(pow(9, 9), pow(9, 9))", "too large"),
        ("open('x')", "is no formula"),
        ("m.real", "is no formula"),
        ("ceil_div(m)", "is no formula"),
        ("True", "is no formula"),
        ("'m'", "is no formula"),
        ("", "is no formula"),
        ("(" * 150 + "1" + ")" * 150, "over 200 characters"),
        ("m // (k - 96)", "divides by zero"),
        ("m % 0", "divides by zero"),
        ("9" * 99 + " * " + "9" * 90, "too large"),
        ("1e308 * 10", "too large"),
        ("1e308 * 10 - 1e308 * 10", "too large"),
        (float("nan"), "too large"),
    ],
)
def test_what_is_no_formula_is_refused(formula: Formula, complaint: str) -> None:
    with pytest.raises(UnfitDeclaration, match=complaint):
        value_of(formula, NAMES)


def test_a_size_is_whole() -> None:
    assert whole_number("k / 32", NAMES) == 3
    with pytest.raises(UnfitDeclaration, match=r"'k / 64' is 1\.5, and has to be a whole number"):
        whole_number("k / 64", NAMES)
