"""Tiles keep what the shaders build on, and fit the device; batches are counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernels.matrices import tiles
from vkbench_shaders.kernels.matrices.tiles import TILES, Tile

DEVICE = DeviceFacts(
    key="0" * 12, host="h", index=0, name="a device", uuid="00", vendor_id=0, device_id=0,
    type="discrete", memory_bytes=1 << 40, subgroup_size=8, features=(),
    limits={"max_storage_range": 1 << 40, "max_shared_bytes": 32768},
    compute_units=132,
)  # fmt: skip


@pytest.mark.parametrize("tile", TILES, ids=lambda tile: tile.name)
def test_a_tile_is_cut_as_the_shaders_expect(tile: Tile) -> None:
    assert (tile.m % tile.block_m, tile.n % tile.block_n) == (0, 0)
    assert max(tile.m, tile.n) <= tile.threads <= 128
    # rows of a thread are multiples of 8 apart, and steps of plain numbers fit in its registers
    assert (tile.m // tile.block_m % 8, tile.n // tile.block_n % 8) == (0, 0)
    assert tile.m * 4 <= 4 * tile.threads
    assert tile.n * 4 <= 2 * tile.threads
    assert tile.shared_bytes + 8192 <= 32768
    assert (tile.m + tile.n) * 8 >= 128 + tile.n  # mul_mat_id lists pairs there


@pytest.mark.parametrize(
    ("m", "n", "expected"),
    [(4096, 512, "128x64"), (1024, 1024, "64x64"), (4096, 16, "32x32"), (65536, 16, "128x16")],
)
def test_large_products_get_large_tiles(m: int, n: int, expected: str) -> None:
    assert tiles.choose(problem(f"mul_mat/q4_0/m{m}_n{n}_k256"), DEVICE, m, n).name == expected


def test_a_tile_fits_the_device_s_shared_memory() -> None:
    small = replace(DEVICE, limits={**DEVICE.limits, "max_shared_bytes": 16384})
    auto, asked = (problem(f"mul_mat/q4_0/m4096_n512_k256{how}") for how in ("", "/tile=128x64"))
    assert tiles.choose(auto, small, 4096, 512).shared_bytes + 8192 <= 16384
    assert tiles.refuses(auto, small) is None
    assert tiles.refuses(asked, DEVICE) is None
    reason = tiles.refuses(asked, small)
    assert reason == "a tile of 128x64 takes 32768 bytes of shared memory, the device has 16384"


def test_what_32_bits_cannot_address_is_refused() -> None:
    assert tiles.refuses(problem("mul_mat/f32/m32768_n1_k32768"), DEVICE) is None
    reason = tiles.refuses(problem("mul_mat/f32/m32769_n1_k32768"), DEVICE)
    assert reason == "weights has 4295098368 bytes, the kernel reaches 4294967296"


@pytest.mark.parametrize("name", ["batch2", "batch3", "repeat2", "repeat3"])
def test_there_is_at_least_one_matrix(name: str) -> None:
    with pytest.raises(UsageError, match=f"value of mul_mat's {name} is at least 1; got 0"):
        problem(f"mul_mat/f32/m1_n1_k1/{name}=0")
    with pytest.raises(UsageError, match=r"is a int; got 1\.5"):
        problem(f"mul_mat/f32/m1_n1_k1/{name}=1.5")


def test_batches_have_two_more_dimensions() -> None:
    posed = problem("mul_mat/q4_0/m5_n7_k64/batch3=2,repeat2=3")
    assert posed.array_shape("weights") == (2, 1, 5, 36)
    assert posed.array_shape("x") == (2, 3, 7, 64)
    assert posed.array_shape("y") == (2, 3, 7, 5)
    assert posed.flops == 2 * 6 * 5 * 7 * 64
    assert posed.bytes_moved == 2 * 5 * 36 + 4 * 6 * 7 * (64 + 5)
    assert problem("mul_mat/q4_0/m5_n7_k64").array_shape("y") == (7, 5)
