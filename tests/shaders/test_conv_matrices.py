"""How convolutions by cooperative matrices are launched: which way, which tile, which threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import pytest

from vkbench.device import DeviceFacts
from vkbench_shaders.catalogue import KERNELS, problem
from vkbench_shaders.kernel import Launch, Problem
from vkbench_shaders.kernels.images import conv_coop, conv_matrices
from vkbench_shaders.kernels.shared.cooperative.panels import Lies

DEVICE = DeviceFacts(
    key="0" * 12, host="h", index=0, name="NVIDIA H200", uuid="00", vendor_id=0x10DE, device_id=0,
    type="discrete", memory_bytes=1 << 40, subgroup_size=32, features=("matrix_f16_f32",),
    limits={"max_storage_range": 1 << 40},
)  # fmt: skip
CPU = replace(DEVICE, type="cpu", subgroup_size=8, features=("matrix_f16_f32_8x8x8",))
WIDE = replace(DEVICE, subgroup_size=64)
LARGE = "n16_c256_h19_w19_o4096_r4_s4"
SMALL = "n16_c8_h19_w19_o128_r4_s4"


def launches(case: str, device: DeviceFacts = DEVICE) -> tuple[Launch, ...]:
    posed = problem(case)
    return posed.kernel.variant("coopmat").launches(posed, device)


@pytest.mark.parametrize("layout", ["", "/layout=nhwc"])
def test_large_products_are_packed_first_and_small_ones_take_one_dispatch(layout: str) -> None:
    *packing, multiplying = launches(f"conv2d/f32/{LARGE}{layout}")
    assert {launch.entry[:9] for launch in packing} == {"pack_rows", "pack_patc"}
    assert multiplying.entry.startswith("coop_")
    (only,) = launches(f"conv2d/f32/{SMALL}{layout}")
    assert only.entry.startswith("conv_coop_last" if layout else "conv_coop")


def test_weights_that_lie_as_the_product_reads_them_are_not_packed() -> None:
    first, _ = launches(f"conv2d/f16/{LARGE}")
    assert first.entry == "pack_patches"


@pytest.mark.parametrize(
    "case",
    [
        "conv1d/f16/n8_c256_w8192_o512_s3/padding=1",
        "conv2d/f16/n1_c256_h256_w256_o256_r3_s3/padding=1",
        "conv2d/f16/n1_c32_h16_w16_o16_r3_s3/padding=1,tile=coop_64x64_packed",
    ],
)
def test_patches_are_packed_also_where_they_fill_whole_tiles(case: str) -> None:
    """Rows of patches lie nowhere: the windows that they come from overlap in x."""
    *packing, multiplying = launches(case)
    assert packing[-1].entry == "pack_patches"
    assert multiplying.constants["RIGHT_LIES"] == Lies.PANELS


def cooperative() -> Iterator[Problem]:
    for kernel in KERNELS:
        if kernel.name in ("conv1d", "conv2d", "conv3d"):
            yield from (Problem(kernel, case) for case in (*kernel.cases, *kernel.timed))


@pytest.mark.parametrize("device", [DEVICE, CPU, WIDE], ids=["32", "8", "64"])
def test_workgroups_cover_y_and_have_a_thread_for_each_pixel(device: DeviceFacts) -> None:
    seen = set()
    for posed in cooperative():
        variant = posed.kernel.variant("coopmat")
        if variant.refuses(posed, device):
            continue
        *_, launch = variant.launches(posed, device)
        if not launch.entry.startswith("conv_coop"):
            continue
        m, n, _ = (int(side) for side in launch.entry.split("_")[-2].split("x"))
        assert prod(launch.groups) * m * n >= prod(posed.array_shape("y"))
        assert launch.constants["THREADS"] >= n
        seen.add((m, n))
    wanted = {(t.m, t.n) for t in conv_coop.TILES if t.fits(device)}
    assert seen == wanted


def test_tiles_of_both_ways_are_offered_and_named_apart() -> None:
    posed = problem(f"conv2d/f32/{LARGE}")
    variant = posed.kernel.variant("coopmat")
    offered = {str(each["tile"]) for each in posed.candidates(DEVICE, variant)}
    assert offered & set(conv_coop.NAMES)
    assert offered & set(conv_matrices.OF_PANELS)
    assert not set(conv_coop.NAMES) & set(conv_matrices.OF_PANELS)
