"""Products of dense weights by teams: ragged shapes, all kinds of settings."""

from __future__ import annotations

from itertools import product

import pytest

from vkbench.job import Job, Mode, Outcome
from vkbench_shaders.bundle import Bundle
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

FORMATS = ("f16", "bf16", "f32", "f16:x=f16")
SHAPES = (
    "m37_n8_k1024/rows=4,team=64,threads=256",
    "m67_n5_k1032/ahead=no,rows=4,team=32,threads=256",
    "m45_n9_k520/rows=8,team=32,threads=128",
    "m61_n3_k512/ahead=no,layout=strided,rows=8,team=64,threads=128",
    "m19_n11_k1021/rows=8,team=64,threads=128",
    "m131_n2_k4096",
)


@pytest.mark.parametrize(("fmt", "shape"), [*product(FORMATS, SHAPES)])
def test_results_are_right(lavapipe: VulkanDevice, bundle: Bundle, fmt: str, shape: str) -> None:
    case = f"mul_mat_vec/{fmt}/{shape}"
    job = Job(id=1, token=1, case=case, mode=Mode.CORRECTNESS, variant="teams")
    result = execute(lavapipe, bundle, job)
    assert result.outcome is Outcome.PASSED, f"{result.reason} {result.verdict}"
