"""How far rounding to f16 puts results of attention off: by as much as deviations say."""

from __future__ import annotations

import numpy as np
import pytest

from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Array, Problem
from vkbench_shaders.quantisers import quants
from vkbench_shaders.rounded_factors import TO_F16, Floats

# three weights of one row are about as large, and their scores are large
COMPETING = "flash_attn/q8_0/s1_h8_g8_q1_n2048_d128_e128/mask=causal"
CASES = (
    COMPETING,
    "flash_attn/f16/s1_h2_g1_q128_n64_d256_e256/mask=blocks",
    "flash_attn/q8_0/s1_h16_g1_q5_n530_d256_e256/mask=blocks,sinks=yes",
    "flash_attn/q4_0/s2_h8_g2_q8_n300_d64_e32/softcap=10.0",
    "flash_attn/q4_0/s1_h4_g1_q75_n129_d64_e128/mask=causal,max_bias=8.0",
)


def exact(posed: Problem) -> tuple[dict[str, Array], Floats, Floats]:
    """Its inputs, the results, and how far these may be off."""
    kernel, inputs = posed.kernel, posed.kernel.inputs(posed)
    assert kernel.check.deviations
    said = kernel.check.deviations(posed, inputs, None, TO_F16)["y"]
    return inputs, kernel.check.reference(posed, inputs, None)["y"], said


def of_rounded(posed: Problem, inputs: dict[str, Array]) -> Floats:
    """The results of f16: of queries times their scale, keys and values."""
    scale = 1 / np.sqrt(posed.shape["d"])
    factors = {name: quants.dequantise(posed.types[name], inputs[name]) for name in "qkv"}
    factors["q"] = factors["q"] * scale
    rounded = {name: factor.astype(np.float16).astype(float) for name, factor in factors.items()}
    rounded["q"] /= scale
    kernel = posed.kernel
    types = {**posed.types, "k": "f32", "v": "f32"}
    wide = Problem(kernel, kernel.case(types, posed.shape, posed.params))
    return kernel.check.reference(wide, {**inputs, **rounded}, None)["y"]


@pytest.mark.parametrize("case", CASES)
def test_rounding_puts_results_off_by_what_is_said(case: str) -> None:
    posed = problem(case)
    inputs, wanted, said = exact(posed)
    off = np.abs(of_rounded(posed, inputs) - wanted)
    known = said > 0
    assert not off[~known].any()
    shares = off[known] / said[known]
    assert 1 < shares.max() < 4.5
    assert 0.02 < np.mean(shares**2) < 1


def test_no_limit_for_all_cases_holds_where_weights_compete() -> None:
    """It was 1e-5."""
    posed = problem(COMPETING)
    inputs, wanted, _ = exact(posed)
    found = of_rounded(posed, inputs)
    assert np.sum((found - wanted) ** 2) > 1e-5 * np.sum(wanted**2)


@pytest.mark.parametrize("case", CASES[:3])
def test_a_position_that_is_left_out_is_seen(case: str) -> None:
    posed = problem(case)
    inputs, wanted, said = exact(posed)
    k = quants.dequantise(posed.types["k"], inputs["k"])
    v = quants.dequantise(posed.types["v"], inputs["v"])
    last = posed.shape["q"] - 1
    scores = inputs["q"][0, 0, last].astype(float) @ k[0, 0].T / np.sqrt(posed.shape["d"])
    scores += inputs["mask"][last].astype(float)
    weights = np.exp(scores - scores.max())
    left_out = int(np.argmin(np.abs(weights / weights.sum() - 0.01)))
    weights[left_out] = 0
    found = weights @ v[0, 0] / weights.sum()
    off = np.abs(found - wanted[0, 0, last])
    assert np.any(off > 6 * said[0, 0, last] + 5e-4 * np.sqrt(np.mean(wanted**2)))
