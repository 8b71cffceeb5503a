"""Where outputs of upsampling lie: at fractions that devices divide exactly, where they can."""

from __future__ import annotations

import pytest

from vkbench.case import parse
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernels.images.upsample import scales


@pytest.mark.parametrize("case", ["h5_w7", "h5_w7/antialias=yes", "h9_w10/antialias=yes,factor=4"])
def test_doubled_numbers_lie_at_fractions_of_powers_of_two(case: str) -> None:
    for axis in scales(problem(parse(f"upsample_bilinear2d/f16/n1_c1_{case}"))):
        assert axis.denominator & (axis.denominator - 1) == 0  # a quotient by 28 may be inexact


def test_fractions_in_lowest_terms_are_the_same_places() -> None:
    doubled = problem(parse("upsample_bicubic2d/f32/n1_c1_h6_w8/height=9,width=5"))
    height, width = scales(doubled)
    assert (height.factor, height.shift, height.denominator) == (4, -1, 6)  # (12 i - 3) / 18
    assert (width.factor, width.shift, width.denominator) == (16, 3, 10)
