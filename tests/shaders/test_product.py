"""How products by cooperative matrices read their factors: where these lie, or from panels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vkbench.device import DeviceFacts
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Launch
from vkbench_shaders.kernels.shared.cooperative.panels import Lies
from vkbench_shaders.tuning.configurations import obstacle

DEVICE = DeviceFacts(
    key="0" * 12, host="h", index=0, name="NVIDIA H200", uuid="00", vendor_id=0x10DE, device_id=0,
    type="discrete", memory_bytes=1 << 40, subgroup_size=32,
    features=("matrix_f16_f32", "matrix_f16_f16"), limits={"max_storage_range": 1 << 40},
)  # fmt: skip


def launches(case: str) -> tuple[Launch, ...]:
    posed = problem(case)
    return posed.kernel.variant("coopmat").launches(posed, DEVICE)


@pytest.mark.parametrize(
    ("case", "left", "right"),
    [
        ("matmul/f16:b=f16/b2_m256_n256_k64", Lies.ROWS, Lies.COLUMNS),
        ("matmul/f16:b=f16/b2_m256_n256_k64/layout=transposed_b", Lies.ROWS, Lies.ROWS),
        ("matmul/f16:b=f16/b2_m256_n256_k64/layout=transposed_a", Lies.COLUMNS, Lies.COLUMNS),
        ("matmul/f16:b=f16/b2_m256_n256_k64/layout=permuted", Lies.ROWS, Lies.ROWS),
    ],
)
def test_whole_tiles_are_read_where_they_lie(case: str, left: Lies, right: Lies) -> None:
    (only,) = launches(case)
    assert (only.constants["LEFT_LIES"], only.constants["RIGHT_LIES"]) == (left, right)


@pytest.mark.parametrize(
    ("case", "packs"),
    [
        ("matmul/f16:b=f16/b2_m256_n252_k64", ["pack_columns_b"]),  # no whole tiles
        ("matmul/f16:b=f16/b2_m250_n256_k64/layout=transposed_a", ["pack_columns_a"]),
        ("matmul/f16:b=f16/b2_m256_n256_k68", ["pack_rows_a", "pack_columns_b"]),  # no whole steps
        ("matmul/f16:b=f16/b2_m256_n256_k64/layout=strided", ["pack_rows_a", "pack_columns_b"]),
        ("matmul/f16/b2_m256_n256_k64", ["pack_columns_b"]),  # b in f32
        ("mul_mat/q4_0/m256_n256_k64", ["pack_rows_a", "pack_rows_b"]),
    ],
)
def test_other_factors_are_packed_first(case: str, packs: list[str]) -> None:
    *packing, _ = launches(case)
    assert [launch.entry for launch in packing] == packs


@pytest.mark.parametrize(
    ("case", "packs"),
    [
        ("mul_mat/f32/m1024_n512_k64", ["pack_rows_b"]),
        ("mul_mat/f32/m1024_n513_k64", ["pack_rows_a", "pack_rows_b"]),  # read too often
        ("mul_mat/f32/m512_n512_k64", ["pack_rows_a", "pack_rows_b"]),  # not the larger one
        ("mul_mat/f32/m1000_n512_k64", ["pack_rows_a", "pack_rows_b"]),  # no whole tiles
        ("mul_mat/f32/m1024_n512_k68", ["pack_rows_a", "pack_rows_b"]),  # no whole steps
        ("mul_mat/f32/m1024_n512_k64/tile=coop_128x256", ["pack_rows_a", "pack_rows_b"]),
    ],
)
def test_weights_of_f32_are_rounded_on_the_way(case: str, packs: list[str]) -> None:
    """Unless they are read too often, or no thread has registers for so many."""
    *packing, product = (each for each in launches(case) if each.entry != "add_parts")
    assert [launch.entry for launch in packing] == packs
    is_read = product.constants["RIGHT_LIES"] == Lies.NUMBERS
    assert is_read == ("pack_rows_a" not in packs)


@pytest.mark.parametrize(
    ("case", "tile"),
    [
        ("matmul/f16:b=f16/b1_m4096_n4096_k4096", "coop_128x256"),
        ("mul_mat/f16/m4096_n512_k14336", "coop_256x128"),
    ],
)
def test_tiles_have_fewer_of_the_rows_that_are_read_where_they_lie(case: str, tile: str) -> None:
    assert any(launch.entry.startswith(tile) for launch in launches(case))


def test_a_tile_that_shared_memory_has_no_room_for_is_not_taken() -> None:
    """Drivers with 32 KiB have such matrices: 128 x 256 takes 34,816 bytes."""
    features = (*DEVICE.features, "coopmat", "device_scope", "subgroup_basic", "fp16")
    limits = {**DEVICE.limits, "max_shared_bytes": 32768, "max_workgroup_invocations": 1024}
    little = replace(DEVICE, features=features, limits=limits)
    named = problem("matmul/f16:b=f16/b1_m261_n253_k96/tile=coop_128x256")
    reason = obstacle(named, named.kernel.variant("coopmat"), little)
    assert (
        reason == "a tile of coop_128x256 takes 34816 bytes of shared memory, the device has 32768"
    )
    left_to_us = problem("matmul/f16:b=f16/b1_m261_n253_k96")
    assert not obstacle(left_to_us, left_to_us.kernel.variant("coopmat"), little)
