"""Outputs of q8_1 are judged by the numbers that their blocks stand for."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import Array
from vkbench_shaders.quantisers import quants
from vkbench_worker.judging.blocks import Compared, compare_blocks

FORMAT = format_named("q8_1")
SHARE = 5e-4  # of the RMS, that the arithmetic may be off by
STEP, SUM, CODES = slice(0, 2), slice(2, 4), slice(4, 36)  # bytes of a block


@pytest.fixture
def exact() -> NDArray[np.float64]:
    """Rows of blocks of all sizes, a block of zeros and one of a single number too."""
    found = np.random.default_rng(7).normal(size=(3, 5, 64))
    found[0] *= 2.0 ** np.arange(-12, 13, 6)[:, None]
    found[1, 0, :32] = 0
    found[1, 1, :32] = 0.75
    return found


def judged(stored: Array, exact: NDArray[np.float64]) -> Compared:
    return compare_blocks(stored, exact, FORMAT, SHARE)


def stored(exact: NDArray[np.float64]) -> tuple[Array, Array]:
    """What a CPU makes of numbers, and the same memory by blocks."""
    found = quants.quantise("q8_1", exact)
    return found, found.reshape(-1, FORMAT.bytes)


def test_what_a_cpu_rounds_is_right(exact: NDArray[np.float64]) -> None:
    found = judged(stored(exact)[0], exact)
    assert not found.bad.any()
    assert not found.wrong_sums.any()
    assert 0 < found.worst <= found.limit
    assert 0 < found.nmse < 1e-3


def test_a_code_one_further_off_is_wrong(exact: NDArray[np.float64]) -> None:
    found, blocks = stored(exact)
    error = quants.dequantise("q8_1", found) - exact
    place = int(np.argmax(np.abs(error[2, 0, :32])))  # the block whose numbers are about 1
    codes = blocks[20, CODES].view(np.int8)
    codes[place] += 1 if error[2, 0, place] > 0 else -1
    blocks[20, CODES] = codes.view(np.uint8)
    bad = judged(found, exact).bad
    assert bad.sum() == 1
    assert bad[2, 0, place]


def test_codes_that_are_cut_off_are_wrong(exact: NDArray[np.float64]) -> None:
    found, blocks = stored(exact)
    steps = blocks[:, STEP].copy().view(np.float16).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        cut = np.trunc(np.nan_to_num(exact.reshape(-1, 32) / steps))
    blocks[:, CODES] = cut.astype(np.int8).view(np.uint8)
    assert judged(found, exact).bad.mean() > 0.3


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_a_wrong_sum_is_told(exact: NDArray[np.float64], value: float) -> None:
    found, blocks = stored(exact)
    blocks[20, SUM] = np.array([value], np.float16).view(np.uint8)
    wrong = judged(found, exact)
    assert wrong.wrong_sums.sum() == 1
    assert wrong.wrong_sums[20]
    assert not wrong.bad.any()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_step_that_is_no_number_is_wrong(exact: NDArray[np.float64], value: float) -> None:
    found, blocks = stored(exact)
    blocks[20, STEP] = np.array([value], np.float16).view(np.uint8)
    assert judged(found, exact).bad[2, 0, :32].any()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_beyond_f16_is_inf_of_its_sign(sign: int) -> None:
    exact = np.full((1, 1, 32), sign * 2100.0)
    with np.errstate(over="ignore"):
        found, blocks = stored(exact)
    assert np.isinf(blocks[0, SUM].view(np.float16))
    assert not judged(found, exact).wrong_sums.any()
    for other in (-sign * np.inf, sign * 65504, np.nan):
        blocks[0, SUM] = np.array([other], np.float16).view(np.uint8)
        assert judged(found, exact).wrong_sums.all()
