"""Sums, differences, products and quotients of any two singles are what IEEE 754 says they are."""

from __future__ import annotations

import numpy as np
import pytest

from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Array
from vkbench_worker.runner.execute import compute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

COUNT = 1 << 19
OPERATIONS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


@pytest.fixture(scope="module")
def pairs() -> tuple[Array, Array]:
    """Any bits; a quarter each of like exponents, of small products and of small quotients."""
    random = np.random.Generator(np.random.Philox(key=11))
    a, b = random.integers(0, 1 << 32, (2, COUNT), np.uint32)
    a[::3] &= 0x807FFFFF  # denormals
    exponent = (a >> 23 & 255).astype(np.int64)
    near = random.integers(-26, 4, COUNT)
    for start, wanted in ((1, exponent + near), (2, 127 - exponent + near), (3, exponent + 126)):
        few = np.clip(wanted[start::4], 0, 254).astype(np.uint32)
        b[start::4] = b[start::4] & 0x807FFFFF | few << 23
    assert np.isnan(a.view(np.float32)).any()
    return a.view(np.float32), b.view(np.float32)


@pytest.fixture(scope="module")
def close_pairs() -> tuple[Array, Array]:
    """Quotients beside powers of two, and as near as can be to the middle of two numbers."""
    random = np.random.Generator(np.random.Philox(key=12))
    above, below = random.integers(1 << 23, 1 << 24, (2, COUNT))
    above[::4] = np.clip(below[::4] + random.integers(-4, 5, COUNT // 4), 1 << 23, (1 << 24) - 1)
    products = (2 * above[1::2] + 1) * below[1::2]  # of a middle: 2^47 to 2^49
    whole = np.where(products < 1 << 48, products >> 24, products >> 25)
    above[1::2] = whole + random.integers(0, 2, COUNT // 2)
    a, b = (
        number.astype(np.float32) * np.exp2(random.integers(-60, 40, COUNT), dtype=np.float32)
        for number in (above, below)
    )
    return a, -b


def check(device: VulkanDevice, bundle: Bundle, name: str, pairs: tuple[Array, Array]) -> None:
    shape = 1, 1, 1, COUNT
    arrays = {key: array.reshape(shape) for key, array in zip("ab", pairs, strict=True)}
    posed = problem(f"{name}/f32/b1_c1_h1_w{COUNT}")
    outputs, _ = compute(device, bundle, posed, "portable", arrays)
    found = outputs["y"].reshape(-1)
    with np.errstate(all="ignore"):
        wanted = OPERATIONS[name](*pairs)
    differ = (found.view("u4") != wanted.view("u4")) & ~(np.isnan(found) & np.isnan(wanted))
    at = int(differ.argmax())
    assert not differ.any(), f"{pairs[0][at]} {name} {pairs[1][at]}: {found[at]} for {wanted[at]}"


@pytest.mark.parametrize("name", OPERATIONS)
def test_lavapipe_rounds_to_nearest(
    lavapipe: VulkanDevice, bundle: Bundle, name: str, pairs: tuple[Array, Array]
) -> None:
    check(lavapipe, bundle, name, pairs)


@pytest.mark.parametrize("name", OPERATIONS)
def test_swiftshader_rounds_to_nearest(
    swiftshader: VulkanDevice, bundle: Bundle, name: str, pairs: tuple[Array, Array]
) -> None:
    check(swiftshader, bundle, name, pairs)


def test_lavapipe_decides_close_quotients(
    lavapipe: VulkanDevice, bundle: Bundle, close_pairs: tuple[Array, Array]
) -> None:
    check(lavapipe, bundle, "div", close_pairs)


def test_swiftshader_decides_close_quotients(
    swiftshader: VulkanDevice, bundle: Bundle, close_pairs: tuple[Array, Array]
) -> None:
    check(swiftshader, bundle, "div", close_pairs)


def halves() -> tuple[Array, Array]:
    """Every two mantissas, of numbers of all sizes and signs; denormals, zeros, Inf and NaN too."""
    random = np.random.Generator(np.random.Philox(key=13))
    mantissas = np.indices((1024, 1024)).reshape(2, -1)
    numbers = (random.integers(0, 64, mantissas.shape) << 10 | mantissas).astype(np.uint16)
    a, b = numbers.view(np.float16)
    return a, b


def check_halves(device: VulkanDevice, bundle: Bundle) -> None:
    a, b = halves()
    posed = problem(f"div/f16:b=f16/b1_c1_h1_w{a.size}")
    arrays = {"a": a.reshape(1, 1, 1, -1), "b": b.reshape(1, 1, 1, -1)}
    outputs, _ = compute(device, bundle, posed, "portable", arrays)
    found = outputs["y"].reshape(-1)
    with np.errstate(all="ignore"):
        wanted = (a.astype(np.float32) / b.astype(np.float32)).astype(np.float16)
    differ = (found.view("u2") != wanted.view("u2")) & ~(np.isnan(found) & np.isnan(wanted))
    at = int(differ.argmax())
    assert not differ.any(), f"{a[at]} / {b[at]}: {found[at]} for {wanted[at]}"


def test_lavapipe_divides_halves(lavapipe: VulkanDevice, bundle: Bundle) -> None:
    check_halves(lavapipe, bundle)


def test_swiftshader_divides_halves(swiftshader: VulkanDevice, bundle: Bundle) -> None:
    check_halves(swiftshader, bundle)
