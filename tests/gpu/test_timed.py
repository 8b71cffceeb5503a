"""Jobs are timed by lavapipe's own clock, in bounds that make sense."""

from __future__ import annotations

import pytest

from vkbench.job import Job, Mode, Outcome
from vkbench_shaders.bundle import Bundle
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

TIMED = ("copy/f32/n1048576", "mul_mat_vec/q4_0/m4096_n1_k4096", "dequantize/q8_0/m4096_k4096")


@pytest.mark.parametrize("case", TIMED)
def test_lavapipe_is_timed(lavapipe: VulkanDevice, bundle: Bundle, case: str) -> None:
    job = Job(id=1, token=1, case=case, mode=Mode.PERFORMANCE, measure_seconds=0.2, noise=0.05)
    result = execute(lavapipe, bundle, job)
    assert result.outcome is Outcome.PASSED, result.reason
    assert [timing.metric for timing in result.timings] == ["hot", "cold"]
    for timing in result.timings:
        assert timing.clock == "gpu"
        assert timing.low <= timing.seconds <= timing.high
        assert 1e-6 < timing.seconds < result.seconds
