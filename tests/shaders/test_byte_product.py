"""Products of bytes by cooperative matrices: how they are cut, who refuses, and who takes them."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from planted_devices import MATRICES
from vkbench.device import DeviceFacts
from vkbench_shaders.catalogue import kernel_named, problem
from vkbench_shaders.kernel import Launch, Variant
from vkbench_shaders.kernels.matrices.cooperative.byte_product import OF_BLOCKS, ROUNDING
from vkbench_shaders.tuning.configurations import for_auto, obstacle

DEVICE = replace(
    MATRICES, features=(*MATRICES.features, "int8", "subgroup_shuffle", "matrix_i8_i32")
)
CPU = replace(
    DEVICE,
    type="cpu",
    subgroup_size=8,
    compute_units=4,
    vendor_id=0x10005,
    features=(*DEVICE.features[:-1], "matrix_i8_i32_8x8x8"),
)


def variant(name: str = ROUNDING) -> Variant:
    return kernel_named("mul_mat").variant(name)


def launched(case: str, device: DeviceFacts = DEVICE) -> tuple[Launch, ...]:
    posed = problem(f"mul_mat/{case}")
    return variant(OF_BLOCKS if "q8_1" in case else ROUNDING).launches(posed, device)


@pytest.mark.parametrize(
    ("case", "device", "entries", "tiles", "padded"),
    [
        ("q4_0/m4096_n512_k14336", DEVICE, ["by_lanes", "128x128_16x16x32"], 128, 512),
        ("q4_K/m4096_n512_k14336", DEVICE, ["by_lanes", "128x128_16x16x32"], 128, 512),
        ("q8_0:x=q8_1/m4096_n512_k14336", DEVICE, ["of_blocks", "128x128_16x16x32"], 128, 512),
        ("q4_0/m512_n100_k4096", DEVICE, ["by_lanes", "64x64_16x16x32", "add_parts"], 256, 128),
        ("q4_0/m33_n17_k96/tile=coop_16x32", CPU, ["by_lanes", "16x32_8x8x8"], 4, 32),
    ],
)
def test_tiles_and_parts_of_k_keep_a_device_busy(
    case: str, device: DeviceFacts, entries: list[str], tiles: int, padded: int
) -> None:
    panels, product, *adding = launched(case, device)
    found = [launch.entry for launch in (panels, product, *adding)]
    assert all(entry.endswith(wanted) for entry, wanted in zip(found, entries, strict=True))
    assert prod(product.groups) == tiles
    assert product.push["padded"] == panels.push["padded"] == padded


def test_shared_memory_is_what_gpus_have() -> None:
    _, product, *_ = launched("q4_K/m4096_n512_k14336")
    lines = product.constants["SHARED"] + product.constants["SCALES"]
    assert 49152 - 16 <= 16 * lines <= 49152


def test_only_devices_that_round_once_scale_as_they_convert() -> None:
    for device, fused in ((DEVICE, True), (CPU, False)):
        assert launched("q4_0/m64_n64_k64", device)[1].constants["FUSED"] == fused


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("q4_0/m64_n8_k64/tile=64x64", "has no tiles of 64x64"),
        ("q4_0/m64_n8_k64/tile=coop_16x32", "of bytes for tiles of coop_16x32, which"),
        ("q4_0/m1_n1_k32", "rounds its factors"),
        ("q4_0:x=q8_1/m64_n8_k64", "is not for"),
        ("f16/m64_n8_k64", "is not for"),
        ("q6_K/m64_n8_k256", "is not for"),  # two scales for 32 weights
    ],
)
def test_what_it_cannot_multiply_is_refused(case: str, reason: str) -> None:
    assert reason in obstacle(problem(f"mul_mat/{case}"), variant(), DEVICE)


def test_devices_without_room_or_matrices_are_refused() -> None:
    posed = problem("mul_mat/q4_0/m64_n64_k64")
    assert not obstacle(posed, variant(), DEVICE)
    little = replace(DEVICE, limits={**DEVICE.limits, "max_shared_bytes": 16384})
    assert obstacle(posed, variant(), MATRICES)
    without = replace(DEVICE, features=DEVICE.features[:-1])
    for device in (without, replace(DEVICE, subgroup_size=64)):
        lacks = f"needs cooperative matrices of bytes, which {device.name} lacks"
        assert lacks in obstacle(posed, variant(), device)
    room = "a tile of coop_64x64 takes 22524 bytes of shared memory, the device has 16384"
    assert room in obstacle(posed, variant(), little)


def test_tiles_leave_room_for_matrices_of_lanes_in_an_unknown_order() -> None:
    posed = problem("mul_mat/q4_K/m4096_n512_k14336/tile=coop_128x128")
    other = replace(DEVICE, vendor_id=0x1002)
    assert not obstacle(posed, variant(), DEVICE)
    room = "coop_128x128 takes 57340 bytes of shared memory, the device has 49152"
    assert room in obstacle(posed, variant(), other)


def test_a_single_product_of_blocks_of_bytes_is_computed() -> None:
    """Whose vectors are not rounded."""
    posed = problem("mul_mat/q4_0:x=q8_1/m1_n1_k32")
    assert not obstacle(posed, variant(OF_BLOCKS), DEVICE)


def names_for_auto(case: str, device: DeviceFacts = DEVICE) -> list[str]:
    return [each.name for each in for_auto(problem(f"mul_mat/{case}"), device)]


def test_auto_takes_it_for_large_products_of_blocks_alone() -> None:
    assert ROUNDING not in names_for_auto("q4_0/m4096_n512_k14336")
    large, small = "q4_0:x=q8_1/m4096_n512_k14336", "q4_0:x=q8_1/m64_n512_k64"
    assert names_for_auto(large) == [OF_BLOCKS, "int_dot", "portable"]
    assert names_for_auto(small) == ["int_dot", "portable", OF_BLOCKS]
    assert names_for_auto(large, CPU) == ["int_dot", "portable", OF_BLOCKS]
