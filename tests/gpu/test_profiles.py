"""Each kernel runs on devices that we lack, as public reports describe them, or says why not.

A lavapipe that has no more than the report says stands in for the device, under the validation
layer, which tells what goes beyond the report's limits and features.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import profiled
from planted_profiles import Profile, plant_profile, read_profiles
from vkbench.job import AUTO, Outcome
from vkbench_shaders.catalogue import problem
from vkbench_worker.runner.variants import choose
from vkbench_worker.runtime.errors import Unsupported
from vkbench_worker.runtime.vulkan.device import VulkanDevice

PROFILES = read_profiles()
MODERN = 2  # minor version of Vulkan whose drivers read the SPIR-V of packaged kernels
REASON = re.compile(
    r"(\w+: needs [\w, ]+, which .* lacks(; )?)+$"
    r"|needs .* (threads|shared memory); the device's limit is \d+$"
    r"|the kernel is SPIR-V 1\.5; .* reads up to 1\.3$"
)
OURS = {  # a limit's name in vkbench
    "maxComputeSharedMemorySize": "max_shared_bytes",
    "maxComputeWorkGroupInvocations": "max_workgroup_invocations",
    "maxComputeWorkGroupCount[0]": "max_groups_x",
    "maxStorageBufferRange": "max_storage_range",
    "maxPushConstantsSize": "max_push_bytes",
}


@dataclass(frozen=True)
class Row:
    """How the case of a kernel ended."""

    case: str
    variant: str
    outcome: str
    reason: str
    seconds: float


@pytest.mark.timeout(500)
@pytest.mark.parametrize("name", PROFILES)
def test_each_kernel_runs_or_says_why_not(
    name: str, lavapipe: VulkanDevice, tmp_path: Path, session_cache: Path
) -> None:
    profile = PROFILES[name]
    rows, limits = run_kernels(profile, tmp_path, session_cache / "shaders")
    assert len(rows) == len(list(profiled.pick_cases(turn_of(profile))))
    bad = [row for row in rows if row.outcome not in (Outcome.PASSED, Outcome.SKIPPED)]
    assert bad == []
    unclear = [row for row in rows if row.outcome == Outcome.SKIPPED and not is_clear(row.reason)]
    assert unclear == []
    for limit, ours in OURS.items():
        assert limits[ours] <= profile.limits[limit]
    assert limits["storage_alignment"] >= profile.limits["minStorageBufferOffsetAlignment"]
    if profile.limits["maxComputeSharedMemorySize"] == 16384 and profile.minor >= MODERN:
        [sorting] = (row for row in rows if row.case.startswith("argsort/"))
        assert sorting.reason == "needs 18432 bytes of shared memory; the device's limit is 16384"
        [turning] = (row for row in rows if row.case.startswith("rms_norm_rope/"))
        assert turning.outcome == Outcome.PASSED
    counts = Counter(row.outcome for row in rows)
    others = [row for row in rows if row.variant and row.variant != choose_plain(row, lavapipe)]
    print(f"{profile.device}: {dict(counts)}, {len(others)} by another path than lavapipe")
    if profile.minor < MODERN:
        assert counts[Outcome.PASSED] == 0
    else:
        # A case of f64 where the device has none says nothing about the others.
        able = [
            row for row in rows if not re.match(r"fp64: needs fp64, which .* lacks$", row.reason)
        ]
        assert counts[Outcome.PASSED] > 0.9 * len(able)
        assert bool(others) == bool({"int_dot", "fp16"} & set(profile.lacks))


def is_clear(reason: str) -> bool:
    """Whether a reason names what the device lacks, or its limit."""
    return bool(REASON.match(reason))


def turn_of(profile: Profile) -> int:
    """Which formats run: devices of one subgroup size share them, and the code made for these."""
    return {256: 0, 128: 1, 512: 2}[profile.vector_bits]


def choose_plain(row: Row, lavapipe: VulkanDevice) -> str:
    """The path of a case on a lavapipe that has all of its own."""
    try:
        return choose(problem(row.case), AUTO, lavapipe.facts).name
    except Unsupported:
        return ""


def run_kernels(
    profile: Profile, folder: Path, shaders: Path
) -> tuple[Sequence[Row], Mapping[str, int]]:
    """How each kernel ended on a device of a profile, and the limits that it told."""
    environ = {
        **os.environ,
        "VK_DRIVER_FILES": str(plant_profile(profile, folder)),
        "LP_NATIVE_VECTOR_WIDTH": str(profile.vector_bits),
        "MESA_SHADER_CACHE_DIR": str(shaders),
        "VKBENCH_CACHE": str(folder / "cache"),
        "VKBENCH_DATA": str(folder / "data"),
    }
    command = [sys.executable, str(Path(profiled.__file__)), str(turn_of(profile))]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    assert done.returncode == 0, done.stderr
    *rows, limits = (json.loads(line) for line in done.stdout.splitlines())
    return [Row(*row) for row in rows], dict[str, Any](limits)
