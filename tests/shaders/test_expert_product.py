"""Products with chosen experts by cooperative matrices: tiles, and room for lists of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from vkbench.device import DeviceFacts
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernels.matrices.cooperative import expert_product, expert_tiles

DEVICE = DeviceFacts(
    key="0" * 12, host="h", index=0, name="NVIDIA H100 80GB HBM3", uuid="00", vendor_id=0x10DE,
    device_id=0, type="discrete", memory_bytes=1 << 40, subgroup_size=32,
    features=("coopmat", "fp16", "device_scope", "subgroup_basic", "matrix_f16_f32"),
    limits={"max_storage_range": 1 << 40, "max_shared_bytes": 49152,
            "max_workgroup_invocations": 1024},
)  # fmt: skip


def slots_of(counts: list[int], side: int) -> Iterator[tuple[int, int, int]]:
    """First slot, first slot behind and tiles of each expert, as list_pairs.slang has them."""
    first = 0
    for expert, count in enumerate(counts):
        behind = (first + count) // side + expert + 1
        yield first // side + expert, behind, -(-count // side)
        first += count


@pytest.mark.parametrize("tile", [tile.name for tile in expert_tiles.TILES])
@pytest.mark.parametrize("routing", ["even", "skewed"])
def test_all_tiles_of_all_experts_have_slots(tile: str, routing: str) -> None:
    posed = problem(f"mul_mat_id/q4_0/e9_u3_m8_n331_k32/routing={routing},tile={tile}")
    shape = next(each.shape for each in expert_tiles.TILES if each.name == tile)
    device = replace(DEVICE, features=(*DEVICE.features, shape.feature("f16", "f32")))
    listed, *_, multiplied = expert_product.launches(posed, device)
    counts = np.bincount(posed.kernel.inputs(posed)["ids"].ravel(), minlength=9)
    end = 0
    for begin, behind, tiles in slots_of(counts.tolist(), int(str(listed.push["side"]))):
        assert begin == end
        assert tiles <= behind - begin
        end = behind
    assert end == listed.push["slots"] == multiplied.push["slots"]


def test_tiles_fit_the_shared_memory_beside_a_format_s_table() -> None:
    posed = problem("mul_mat_id/iq2_s/e8_u2_m512_n512_k512")
    assert not expert_product.refuses(posed, DEVICE)
    small = replace(DEVICE, limits={**DEVICE.limits, "max_shared_bytes": 16384})
    reason = expert_product.refuses(posed, small)
    assert reason
    assert reason.startswith("needs cooperative matrices")


@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        ("e128_u8_m768_n32_k2048", "coop_32x128"),
        ("e32_u4_m1792_n32_k2048", "coop_32x128"),
        ("e128_u8_m768_n512_k2048", "coop_64x128"),
        ("e32_u4_m1792_n512_k2048", "coop_64x128"),
    ],
)
def test_the_tile_that_was_fastest_on_an_h200_comes_first(shape: str, tile: str) -> None:
    posed = problem(f"mul_mat_id/q4_0/{shape}")
    assert expert_product.candidates(posed, DEVICE)[0] == {"tile": tile}
