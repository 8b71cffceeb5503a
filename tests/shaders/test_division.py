"""Multipliers divide every index below 2^31 exactly, as the shaders do it."""

from __future__ import annotations

import numpy as np
import pytest

from vkbench_shaders.kernels.shared.division import MOST, divisor

NUMBERS = (1, 2, 3, 5, 7, 64, 641, 1023, 1025, 65535, 65537, 6700417, 2**30 + 1, 2**31 - 1)


@pytest.mark.parametrize("number", NUMBERS)
def test_quotients_are_exact_at_both_sides_of_every_multiple(number: int) -> None:
    found = divisor(number)
    assert found["number"] == number
    multiplier, shift = found["multiplier"], found["shift"]
    assert multiplier < 2**32
    times = np.unique(np.geomspace(1, max(1, (MOST - 1) // number), 500).astype(np.uint64))
    multiples = times * np.uint64(number)
    indices = np.concatenate([multiples - np.uint64(1), multiples, [0, MOST - 1]]).astype(np.uint64)
    high = (indices * np.uint64(2) * np.uint64(multiplier)) >> np.uint64(32)
    assert np.array_equal(high >> np.uint64(shift), indices // np.uint64(number))
