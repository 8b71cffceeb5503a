"""How far rounding the factors of products puts their sums off: by as much as deviations say."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Array, Problem
from vkbench_shaders.quantisers import narrow, quants
from vkbench_shaders.rounded_factors import TO_BF16, TO_F16, Floats, Of, Rounding

CASES = (
    "mul_mat/iq2_xs/m261_n37_k256/tile=coop_128x256",
    "mul_mat/q4_K/m97_n101_k768",
    "mul_mat/q4_0/m13_n7_k256/batch2=2,batch3=2,repeat2=3,repeat3=2",
    "mul_mat_id/iq2_xs/e4_u2_m33_n37_k256/routing=skewed",
    "mul_mat_id/q8_0/e8_u2_m31_n29_k512/layout=strided,x=expert",
    "matmul/f32/b3_m133_n70_k64",
    "conv2d/f32/n2_c12_h9_w11_o37_r3_s3",
)


def to_f16(values: Floats) -> Floats:
    return values.astype(np.float16).astype(np.float64)


def to_bf16(values: Floats) -> Floats:
    return narrow.DECODERS["bf16"](narrow.ENCODERS["bf16"](values))


def factors(posed: Problem, rounded: Of) -> Mapping[str, Array]:
    """The inputs of a case, as numbers, each rounded."""
    return {
        name: rounded(quants.dequantise(posed.types[name], stored)) if name != "ids" else stored
        for name, stored in posed.kernel.inputs(posed).items()
    }


def singles(posed: Problem) -> Problem:
    """The same case with numbers in singles, which hold all that is in its blocks."""
    types = {name: fmt if fmt == "i32" else "f32" for name, fmt in posed.types.items()}
    kernel = posed.kernel
    return Problem(kernel, kernel.case(types, posed.shape, posed.params))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("rounding", "rounded"), [(TO_F16, to_f16), (TO_BF16, to_bf16)])
def test_deviations_are_those_of_rounding_both(name: str, rounding: Rounding, rounded: Of) -> None:
    posed = problem(name)
    kernel, inputs = posed.kernel, posed.kernel.inputs(posed)
    assert kernel.check.deviations
    said = kernel.check.deviations(posed, inputs, None, rounding)["y"]
    exact = kernel.check.reference(posed, inputs, None)["y"]
    wide = singles(posed)
    off = np.abs(kernel.check.reference(wide, factors(posed, rounded), None)["y"] - exact)
    known = said > 0
    assert np.all(off[~known] <= 1e-12 * np.abs(exact[~known]))
    shares = off[known] / said[known]
    assert 1.5 < shares.max() < 4
    assert np.mean(shares**2) == pytest.approx(0.54, rel=0.25)


def test_what_needs_no_rounding_may_be_off_by_what_sums_in_f32_are() -> None:
    for name, rounding in (
        ("matmul/f16:b=f16/b3_m133_n70_k64", TO_F16),
        ("matmul/bf16:b=bf16/b3_m133_n70_k64", TO_BF16),
    ):
        posed = problem(name)
        kernel, inputs = posed.kernel, posed.kernel.inputs(posed)
        assert kernel.check.deviations
        said = kernel.check.deviations(posed, inputs, None, rounding)["y"]
        exact = kernel.check.reference(posed, inputs, None)["y"]
        assert np.sqrt(np.mean((6 * said) ** 2)) == pytest.approx(
            5e-4 * np.sqrt(np.mean(exact**2)), rel=0.1
        )


def of_numbers(values: Floats, weights: str = "q4_0") -> Floats:
    """Of each number, multiplied by 1."""
    return TO_F16.deviations(lambda of_weights, of_x: of_weights(values), weights, "f32")


def test_the_error_of_a_number_is_a_share_of_it_or_all_of_a_denormal() -> None:
    values = np.array([1.0, -3.0, 2.0**-14, 6e-8, 0.0])
    both = np.sqrt(2 / 3) * 2.0**-11
    expected = both * np.array([1, 3, 2.0**-14, 6e-8 / (2.0**-11 / np.sqrt(3)), 0])
    np.testing.assert_allclose(of_numbers(values), expected)
    assert np.all(of_numbers(values, "f16") <= expected / 1.3)


def test_sums_of_infinities_have_no_deviation() -> None:
    said = of_numbers(np.array([1.0, np.inf, np.nan]))
    assert said[0] > 0
    assert not said[1:].any()
