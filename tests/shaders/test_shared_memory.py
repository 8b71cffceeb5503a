"""Shared memory of modules is measured; tests/gpu/test_profiles.py has devices with less."""

from __future__ import annotations

from pathlib import Path

import pytest

from vkbench_shaders.compile import compiler
from vkbench_shaders.compile.compiler import Unit
from vkbench_shaders.compile.shared_memory import measure_shared_bytes

PROBE = """
[vk::constant_id(0)] const uint THREADS = 64;
[vk::constant_id(1)] const bool WIDE = false;
struct Pair { float2 sums; uint place; }
groupshared Pair pairs[THREADS * 3 / 2];
groupshared float rows[WIDE ? 4 * THREADS + 1 : 16][5];
groupshared bool is_last;
[[vk::binding(0)]] RWStructuredBuffer<float> result;
[shader("compute")] [numthreads(THREADS, 1, 1)]
void probe(uint3 id : SV_DispatchThreadID)
{
    pairs[id.x].sums = id.x;
    rows[id.x][2] = id.x;
    is_last = id.x == 5;
    GroupMemoryBarrierWithGroupSync();
    result[id.x] = pairs[id.x ^ 1].sums.y + rows[id.x ^ 1][2] + (is_last ? 1 : 0);
}
"""


@pytest.mark.parametrize(
    ("constants", "pairs", "rows"),
    [((), 96, 16), (((0, 128),), 192, 16), (((0, 32), (1, 1)), 48, 129)],
    ids=["defaults", "128 threads", "32 threads, wide"],
)
def test_lengths_follow_from_constants(
    constants: tuple[tuple[int, int], ...], pairs: int, rows: int, tmp_path: Path
) -> None:
    (tmp_path / "probe.slang").write_text(PROBE)
    code = compiler.find().compile(Unit(module="probe", entry="probe"), tmp_path)
    assert measure_shared_bytes(code, constants) == 12 * pairs + 20 * rows + 4
