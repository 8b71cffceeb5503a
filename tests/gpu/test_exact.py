"""The exact arithmetic of encoders, on drivers that take denormals for 0, against numpy's."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from planted_probe import compiled, probed
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.kernel import Array
from vkbench_worker.runtime.vulkan.device import VulkanDevice

COUNT = 1 << 18
UNROUNDED = ("f32", "f16", "bf16", "mxfp4")  # encoders without a product that is rounded
RESULTS = (
    *("over(a, 4)", "over(a, 5)", "over(a, 7)", "halved(a, 3)", "halved(a, 4)", "inverse(a)"),
    *("quotient(c, d)", "f16_to_f32(b & 0xffff)", "asuint(raised(e))", "asuint(lowered(a))"),
    *("unpowered(raised(e), RAISED)", "unpowered(lowered(f), LOWERED)"),
    "asuint(plus(times(float4(asfloat(c)), float4(asfloat(d))), float4(-1)).x)",
)
SOURCE = f"""
import lib.exact;
[[vk::binding(0)]] StructuredBuffer<uint> x;
[[vk::binding(1)]] RWStructuredBuffer<uint> y;
[shader("compute")]
[numthreads(64, 1, 1)]
void probe(uint3 thread : SV_DispatchThreadID)
{{
    uint i = thread.x, b = x[{COUNT} + i];
    uint a = x[i];                                    // any magnitude
    uint c = 0x3f800000 | (a & 0x007fffff);           // 1 to 2
    uint d = 0x3f000000 | (b & 0x00ffffff);           // 0.5 to 2
    uint e = a % 0x30000000;                          // up to 2^-31
    uint f = a | 0x40000000;                          // from 2 on
    {" ".join(f"y[{place * COUNT} + i] = {result};" for place, result in enumerate(RESULTS))}
}}
"""


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compiled(SOURCE, tmp_path_factory.mktemp("slang"))


@pytest.fixture(scope="module")
def words() -> tuple[Array, Array]:
    """Finite magnitudes, denormals and edges of exponents among them, and any words."""
    random = np.random.Generator(np.random.Philox(key=7))
    a, b = random.integers(0, 1 << 32, (2, COUNT), np.uint32)
    a &= 0x7FFFFFFF
    a[::4] >>= 8  # denormals
    exponents = np.resize(np.arange(1, 255, dtype=np.uint32) << 23, a[1::8].size)
    a[1::8] = exponents + random.integers(-2, 3, exponents.size)
    return np.clip(a, 1, 0x7F7FFFFF).astype(np.uint32), b


def computed(device: VulkanDevice, code: bytes, words: tuple[Array, Array]) -> Mapping[str, Array]:
    given, groups = np.concatenate(words), (COUNT // 64, 1, 1)
    found = probed(device, code, given, len(RESULTS) * COUNT, groups)
    return dict(zip(RESULTS, found.reshape(len(RESULTS), COUNT), strict=True))


def expected(words: tuple[Array, Array]) -> Mapping[str, Array]:
    """The same in numpy, whose singles are rounded as IEEE 754 says."""
    a, b = words
    value, half = a.view(np.float32), (b & 0xFFFF).astype(np.uint16).view(np.float16)
    c, d = ((0x3F800000 | a & 0x7FFFFF).view("f4"), (0x3F000000 | b & 0xFFFFFF).view("f4"))
    e, f = a % np.uint32(0x30000000), a | np.uint32(0x40000000)
    with np.errstate(over="ignore", under="ignore"):
        found = (
            *(value / np.float32(divisor) for divisor in (15, 31, 127, 8, 16)),
            *(np.float32(1) / value, c / d, half.astype(np.float32)),
            np.ldexp(e.view(np.float32), 96),
            np.where(value < 2.0**-30, np.float32(0), np.ldexp(value, -96)),
            *(e.view(np.float32), f.view(np.float32), c * d + np.float32(-1)),
        )
    return {
        name: values.astype(np.float32).view(np.uint32)
        for name, values in zip(RESULTS, found, strict=True)
    }


def check(device: VulkanDevice, code: bytes, words: tuple[Array, Array]) -> None:
    found, wanted = computed(device, code, words), expected(words)
    wanted_nans = {name: np.isnan(values.view(np.float32)) for name, values in wanted.items()}
    for name, values in wanted.items():
        differ = (found[name] != values) & ~wanted_nans[name]
        at = int(np.argmax(differ))
        assert not differ.any(), (
            f"{name} of {words[0][at]:#x}, {words[1][at]:#x}: "
            f"{found[name][at]:#x} for {values[at]:#x}, and {differ.sum() - 1} more"
        )


def test_lavapipe_rounds_as_numpy(
    lavapipe: VulkanDevice, code: bytes, words: tuple[Array, Array]
) -> None:
    check(lavapipe, code, words)


def test_swiftshader_rounds_as_numpy(
    swiftshader: VulkanDevice, code: bytes, words: tuple[Array, Array]
) -> None:
    check(swiftshader, code, words)


def test_drivers_are_told_not_to_fuse(code: bytes, bundle: Bundle) -> None:
    """Those of today do not, but may: the decoration says so to any."""
    encoders = [key for key in bundle.entries if key.startswith(("quantize/", "set_rows/"))]
    assert {key for key in encoders if not unfused(bundle.code(key))} == {
        key for key in encoders if any(f"<{fmt}_encoder" in key for fmt in UNROUNDED)
    }
    assert unfused(code) == 2


def unfused(code: bytes) -> int:
    """How many operations have the decoration NoContraction."""
    words = np.frombuffer(code, np.uint32)
    decorated = (words[:-2] == (3 << 16 | 71)) & (words[2:] == 42)
    return int(np.count_nonzero(decorated))
