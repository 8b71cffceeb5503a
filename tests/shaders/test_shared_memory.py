"""Shared memory of modules is measured, and a device that has less is told so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from planted_devices import hopper
from vkbench.job import AUTO
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_shaders.compile import compiler
from vkbench_shaders.compile.compiler import Unit
from vkbench_shaders.compile.shared_memory import measure_shared_bytes
from vkbench_worker.runner.variants import choose, plan
from vkbench_worker.runtime.errors import Unsupported

FACTS = hopper()
GROUPS = {"max_groups_x": 65535, "max_groups_y": 65535, "max_groups_z": 65535}
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


def test_a_device_with_less_is_told_so(bundle: Bundle) -> None:
    posed = problem("argsort/f32/h1_w1")
    limits = {**FACTS.limits, **GROUPS, "max_push_bytes": 128}
    large = replace(FACTS, limits=limits)
    little = replace(FACTS, limits={**limits, "max_shared_bytes": 16384})
    plan(bundle, choose(posed, AUTO, large), large)
    reason = "needs 18432 bytes of shared memory; the device's limit is 16384"
    with pytest.raises(Unsupported, match=reason):
        plan(bundle, choose(posed, AUTO, little), little)
