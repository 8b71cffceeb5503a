"""A million numbers of every kind become the CPU's bytes in every format without a search.

What may differ from gguf, and why:

- q4_1 and q5_1: the sign of a least number that is 0, where a block without negative numbers has
  both zeros. Which of two equal zeros is the least depends on how numpy's vector units go through a
  block; ggml takes the first one.
- Bytes that gguf gets by casting infinities, NaNs or negative numbers to integers, which C leaves
  open: blocks so small that 1 / d is infinite, and those of mxfp4 with an exponent below 0. Shaders
  give what x86 gives, all codes 0 and the exponent's lowest byte; elsewhere these are not compared.
"""

from __future__ import annotations

import platform

import numpy as np
import pytest

from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import Array
from vkbench_shaders.kernels.quant.quantize import FORMATS, SEARCHED
from vkbench_shaders.quantisers import quants
from vkbench_worker.runner.execute import compute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

COLUMNS = 256
ROWS = 4096
COUNT = ROWS * COLUMNS
SMALLEST_CERTAIN = 2.0**-118  # blocks with a larger number have a finite 1 / d in every format

WALKED = tuple(fmt for fmt in FORMATS if fmt not in SEARCHED)  # whose encoders take any number

RANDOM = np.random.Generator(np.random.Philox(key=3))


def million() -> Array:
    """Rows of one kind each: two in five ordinary, the others what breaks quantisers."""
    kinds = (ordinary, ordinary, any_bits, one_exponent, edges)
    made = np.concatenate([kind(ROWS // 5 + 1) for kind in kinds])[:ROWS]
    return np.ascontiguousarray(RANDOM.permutation(made, axis=0), np.float32)


def ordinary(rows: int) -> Array:
    """Bell-shaped, with scales from 1e-4 to 1e4."""
    scales = 10 ** RANDOM.uniform(-4, 4, (rows, COLUMNS // 32, 1))
    return (RANDOM.standard_normal((rows, COLUMNS // 32, 32)) * scales).reshape(rows, COLUMNS)


def any_bits(rows: int) -> Array:
    """All finite numbers alike: huge beside tiny."""
    bits = RANDOM.integers(0, 1 << 32, (rows, COLUMNS), np.uint32)
    bits = np.where(bits & 0x7F800000 == 0x7F800000, bits & 0x807FFFFF, bits)
    return bits.view(np.float32)


def one_exponent(rows: int) -> Array:
    """Blocks of numbers about as large as each other, from the least denormal to the largest."""
    exponents = np.resize(np.arange(-150, 128), rows * COLUMNS // 32)[:, None]
    mantissas = RANDOM.uniform(-2, 2, (exponents.size, 32))
    largest = np.finfo(np.float32).max
    return np.clip(np.ldexp(mantissas, exponents), -largest, largest).reshape(rows, COLUMNS)


def edges(rows: int) -> Array:
    """Zeros of both signs, ties, one number only, equal magnitudes, and just below powers of 2."""
    blocks = np.zeros((rows * COLUMNS // 32, 32), np.float32)
    seven = [blocks[first::7] for first in range(7)]
    seven[0][:, ::2] = -0.0
    seven[1][...] = RANDOM.integers(-16, 17, seven[1].shape) / 2
    seven[2][...] = RANDOM.standard_normal((len(seven[2]), 1))
    seven[3][...] = RANDOM.choice([-1.5, 1.5], seven[3].shape)
    below = 1 - RANDOM.integers(0, 64, len(seven[4])) * 2.0**-24
    seven[4][:, 11] = np.ldexp(below, RANDOM.integers(-126, 128, below.size))
    seven[5][...] = RANDOM.uniform(5, 6, seven[5].shape)
    seven[6][:, 3] = -(2.0**127)
    return blocks.reshape(rows, COLUMNS)


@pytest.fixture(scope="module")
def numbers() -> Array:
    return million()


def quantised(device: VulkanDevice, bundle: Bundle, fmt: str, x: Array) -> Array:
    posed = problem(f"quantize/{fmt}/b1_m{ROWS}_k{COLUMNS}")
    outputs, _ = compute(device, bundle, posed, "auto", {"x": x[None]})
    return np.squeeze(outputs["y"], axis=0)


def check(device: VulkanDevice, bundle: Bundle, fmt: str, x: Array) -> None:
    form = format_named(fmt)
    expected = _blocks(quants.quantise(fmt, x), fmt)
    found = _blocks(quantised(device, bundle, fmt, x), fmt)
    parts = x.reshape(-1, form.elements)
    assert found.shape == expected.shape
    if fmt in ("q4_1", "q5_1"):
        unsure = (parts.min(axis=1) == 0) & np.signbit(parts).any(axis=1)
        expected[unsure, 3], found[unsure, 3] = expected[unsure, 3] & 0x7F, found[unsure, 3] & 0x7F
    differ = (found != expected).any(axis=1)
    if platform.machine() != "x86_64":
        differ &= np.abs(parts).max(axis=1) >= SMALLEST_CERTAIN
    at = int(np.argmax(differ))
    assert not differ.any(), (
        f"{differ.sum()} of {len(differ)} blocks differ, the first of {parts[at]}: "
        f"{found[at]} for {expected[at]}"
    )


def _blocks(stored: Array, fmt: str) -> Array:
    return stored.view(np.uint8).reshape(-1, format_named(fmt).bytes).copy()


@pytest.mark.parametrize("fmt", WALKED)
def test_lavapipe_makes_the_cpu_s_bytes(
    lavapipe: VulkanDevice, bundle: Bundle, numbers: Array, fmt: str
) -> None:
    check(lavapipe, bundle, fmt, numbers)


@pytest.mark.parametrize("fmt", WALKED)
def test_swiftshader_makes_the_cpu_s_bytes(
    swiftshader: VulkanDevice, bundle: Bundle, numbers: Array, fmt: str
) -> None:
    check(swiftshader, bundle, fmt, numbers)
