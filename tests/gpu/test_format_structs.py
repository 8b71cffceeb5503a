"""Every quantised format's Slang type decodes to the CPU's weights, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

import numpy as np
import pytest
from numpy.typing import NDArray

from vkbench.case import Case
from vkbench_shaders import catalogue
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.formats import QUANTISED, Format, format_named
from vkbench_shaders.inputs.blocks import other_bits, random_blocks, write_scale
from vkbench_shaders.quantisers import quants
from vkbench_worker.runner.execute import compute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

Bytes = NDArray[np.uint8]
Codes = NDArray[np.integer]

BLOCKS = 4096  # random ones: every entry of every grid is among them, see below
HALVES = (0, 0x8000, 1, 0x83FF, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF)  # 0, denormal, 1, largest; signs
SCALES = {
    "f16": HALVES,
    "spread": HALVES,
    "f32": (0, 1 << 31, 0x00800000, 0x80800000, 0x7B000000, 0xFB000000),
    "e8m0": range(2, 253),  # less: denormal weights; more: infinite ones
    "ue4m3": range(256),
}
SCALE_TYPES = {"f16": "<u2", "spread": "<u2", "f32": "<u4", "e8m0": "u1", "ue4m3": "u1"}


@pytest.fixture(params=["lavapipe", "swiftshader"])
def device(request: pytest.FixtureRequest) -> VulkanDevice:
    found: VulkanDevice = request.getfixturevalue(request.param)
    return found


def some_blocks(fmt: Format, count: int = BLOCKS) -> Bytes:
    stored = random_blocks(fmt, lambda what: crc32(f"{fmt.name}.{what}".encode()), 1, count)
    return stored.reshape(count, fmt.bytes)


def edge_blocks(fmt: Format) -> Bytes:
    """Every scale of SCALES, in all its fields, with random, clear and set bits around."""
    kind = fmt.scales[0].kind
    codes = np.array(SCALES[kind], SCALE_TYPES[kind])
    found = some_blocks(fmt, 3 * len(codes))
    found[len(codes) :] &= ~other_bits(fmt)
    found[2 * len(codes) :] |= other_bits(fmt)
    for scale in fmt.scales:
        write_scale(found, scale, np.tile(codes, 3))
    return found


def check(device: VulkanDevice, bundle: Bundle, fmt: Format, stored: Bytes, layout: str) -> None:
    case = Case(
        kernel="dequantize",
        format=fmt.name,
        shape={"m": stored.shape[0], "k": stored.shape[1] // fmt.bytes * fmt.elements},
        params={"layout": layout},
    )
    outputs, _ = compute(device, bundle, catalogue.problem(case), "auto", {"weights": stored})
    wanted = quants.dequantise(fmt.name, stored).astype(np.float32)
    assert np.array_equal(outputs["y"].view(np.uint32), wanted.view(np.uint32))


@pytest.mark.parametrize("name", QUANTISED)
def test_weights_are_the_cpu_s(device: VulkanDevice, bundle: Bundle, name: str) -> None:
    fmt = format_named(name)
    blocks = np.concatenate([some_blocks(fmt), edge_blocks(fmt)])
    check(device, bundle, fmt, blocks.reshape(1, -1), "contiguous")


@pytest.mark.parametrize("name", QUANTISED)
def test_rows_begin_at_any_block(device: VulkanDevice, bundle: Bundle, name: str) -> None:
    """Rows of four blocks, five apart: their addresses have every remainder that there is."""
    fmt = format_named(name)
    check(device, bundle, fmt, some_blocks(fmt, 36).reshape(9, -1), "strided")


def test_mxfp4_has_denormal_scales_where_a_device_has_denormals(
    lavapipe: VulkanDevice, bundle: Bundle
) -> None:
    fmt = format_named("mxfp4")
    blocks = some_blocks(fmt, 64)
    blocks[:, 0] = np.arange(64) % 2
    check(lavapipe, bundle, fmt, blocks.reshape(1, -1), "contiguous")


def field(blocks: Bytes, first: int, last: int, kind: str = "u1") -> Codes:
    return np.ascontiguousarray(blocks[:, first:last]).view(kind).astype(np.uint32)


def parts(numbers: Codes, *shifts: int) -> Codes:
    return (numbers[..., None] >> np.array(shifts, np.uint32)).reshape(len(numbers), -1)


# Where a block has its entries of a grid, and how many those are.
ENTRIES: dict[str, tuple[Callable[[Bytes], Codes], int]] = {
    "iq1_s": (
        lambda b: field(b, 2, 34) | (parts(field(b, 34, 50, "<u2"), 0, 3, 6, 9) & 7) << 8,
        2048,
    ),
    "iq1_m": (lambda b: field(b, 0, 32) | (parts(field(b, 32, 48), 0, 4) & 7) << 8, 2048),
    "iq2_xxs": (lambda b: field(b, 2, 66).reshape(-1, 8, 8)[:, :, :4], 256),
    "iq2_xs": (lambda b: field(b, 2, 66, "<u2") & 511, 512),
    "iq2_s": (lambda b: field(b, 2, 34) | (parts(field(b, 66, 74), 0, 2, 4, 6) & 3) << 8, 1024),
    "iq3_xxs": (lambda b: field(b, 2, 66), 256),
    "iq3_s": (lambda b: field(b, 2, 66) | (parts(field(b, 66, 74), *range(8)) & 1) << 8, 512),
}
# Where it has signs: of eight weights, of seven, or of a shift.
SIGNS: dict[str, tuple[Callable[[Bytes], Codes], int]] = {
    "iq1_s": (lambda b: field(b, 34, 50, "<u2") >> 15, 2),
    "iq1_m": (lambda b: parts(field(b, 32, 48), 3, 7) & 1, 2),
    "iq2_xxs": (lambda b: parts(field(b, 2, 66, "<u4")[:, 1::2], 0, 7, 14, 21) & 127, 128),
    "iq2_xs": (lambda b: field(b, 2, 66, "<u2") >> 9, 128),
    "iq2_s": (lambda b: field(b, 34, 66), 256),
    "iq3_xxs": (lambda b: parts(field(b, 66, 98, "<u4"), 0, 7, 14, 21) & 127, 128),
    "iq3_s": (lambda b: field(b, 74, 106), 256),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_of_a_grid_and_every_sign_is_among_the_blocks(name: str) -> None:
    blocks = some_blocks(format_named(name))
    for codes, count in (ENTRIES[name], SIGNS[name]):
        assert np.array_equal(np.unique(codes(blocks)), np.arange(count))
