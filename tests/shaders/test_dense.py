"""Tiles of dense products are such as their shader takes, and parts of k cover it."""

from __future__ import annotations

import pytest

from vkbench.device import DeviceFacts
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernels.matrices.vectors import dense_vec
from vkbench_shaders.kernels.shared import dense
from vkbench_shaders.kernels.shared.dense import TILES, Cut, Tile

HOPPER = DeviceFacts(
    key="0" * 12, host="h", index=0, name="NVIDIA H200", uuid="00", vendor_id=0x10DE, device_id=0,
    type="discrete", memory_bytes=1 << 40, subgroup_size=32, features=(), limits={},
)  # fmt: skip


@pytest.mark.parametrize("tile", TILES, ids=lambda tile: tile.name)
def test_a_tile_is_one_that_every_device_has_room_for(tile: Tile) -> None:
    assert tile.threads in (64, 128, 256)
    assert tile.m % 32 == 0
    assert tile.n % (8 * tile.block_n) == 0
    assert tile.m + tile.n <= 2 * tile.threads // tile.slices  # what each loads twice at most
    assert 2 * (tile.m + tile.n) * tile.step * 4 <= 32768  # bytes of shared memory
    assert dense.LONGEST % tile.step == 0


@pytest.mark.parametrize("k", [0, 1, 16, 17, 100, 300, 4096, 14336])
@pytest.mark.parametrize("parts", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("step", [16, 64])
def test_parts_are_whole_steps_and_none_is_empty(k: int, parts: int, step: int) -> None:
    cut = Cut.into(parts, k, step)
    assert cut.part % step == 0
    assert 1 <= cut.parts <= parts
    assert cut.part * cut.parts >= k
    assert k == 0 or cut.part * (cut.parts - 1) < k


@pytest.mark.parametrize(
    ("layout", "along", "wide"),
    [
        ("contiguous", (True, False), (True, True)),
        ("transposed_a", (False, False), (True, True)),
        ("transposed_b", (True, True), (True, True)),
        ("strided", (True, False), (False, False)),
        ("permuted", (True, True), (True, True)),
    ],
)
def test_operands_are_loaded_along_what_has_no_gaps(
    layout: str, along: tuple[bool, bool], wide: tuple[bool, bool]
) -> None:
    posed = problem(f"matmul/f32/b2_m64_n32_k16/layout={layout}")
    found = [dense.operand(posed, name) for name in "ab"]
    assert tuple(operand.along for operand in found) == along
    assert tuple(operand.wide for operand in found) == wide


def test_large_products_are_cut_into_large_tiles_and_small_ones_are_split() -> None:
    large, cut = dense.choose(problem("matmul/f32/b1_m4096_n4096_k4096"), HOPPER)
    assert (large.m * large.n, cut.parts) == (128 * 128, 1)
    _, cut = dense.choose(problem("matmul/f32/b1_m256_n256_k4096"), HOPPER)
    assert cut.parts > 1


@pytest.mark.parametrize(
    ("case", "vectors", "swapped", "batched"),
    [
        ("b1_m4096_n1_k4096", 1, False, False),
        ("b1_m1_n4096_k4096", 1, True, False),
        ("b1_m64_n3_k64", 3, False, False),
        ("b1_m4_n64_k64/layout=transposed_b", 4, True, False),
        ("b32_m16_n1_k128/repeat_a=4", 4, False, True),
    ],
)
def test_few_vectors_share_one_reading_of_the_matrix(
    case: str, vectors: int, swapped: bool, batched: bool
) -> None:
    found = dense_vec.roles(problem(f"matmul/f32/{case}"))
    assert found
    assert (found.vectors, found.swapped, found.batched) == (vectors, swapped, batched)


def test_many_vectors_are_a_matrix() -> None:
    assert dense_vec.roles(problem("matmul/f32/b1_m64_n5_k64")) is None
    assert dense_vec.roles(problem("matmul/f32/b1_m4_n64_k64")) is None  # columns have gaps
