"""Every case of the catalogue is right on the CPU drivers."""

from __future__ import annotations

import pytest

from vkbench.case import Case
from vkbench.job import Job, Mode, Outcome
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import KERNELS, expand, problem
from vkbench_worker.execute import execute
from vkbench_worker.runtime.device import Device

ALL_PATHS = [
    pytest.param(case, variant.name, id=f"{case.name}-{variant.name}")
    for kernel in KERNELS
    for case in kernel.cases
    for variant in kernel.variants_for(problem(case).types)
]


def check(device: Device, bundle: Bundle, case: Case, variant: str) -> None:
    job = Job(id=1, token=1, case=case.name, mode=Mode.CORRECTNESS, variant=variant)
    result = execute(device, bundle, job)
    assert result.outcome is Outcome.PASSED, f"{result.reason} {result.verdict}"
    assert result.verdict
    assert result.verdict.compared == result.verdict.total


@pytest.mark.parametrize(("case", "variant"), ALL_PATHS)
def test_lavapipe_computes_it_on_every_path(
    lavapipe: Device, bundle: Bundle, case: Case, variant: str
) -> None:
    check(lavapipe, bundle, case, variant)


@pytest.mark.parametrize("case", expand(), ids=str)
def test_swiftshader_computes_it(swiftshader: Device, bundle: Bundle, case: Case) -> None:
    check(swiftshader, bundle, case, "auto")


TIMED = ("copy/f32/n1048576", "mul_mat_vec/q4_0/m4096_n1_k4096", "dequantize/q8_0/m4096_k4096")


@pytest.mark.parametrize("case", TIMED)
def test_lavapipe_is_timed(lavapipe: Device, bundle: Bundle, case: str) -> None:
    job = Job(id=1, token=1, case=case, mode=Mode.PERFORMANCE, measure_seconds=0.2, noise=0.05)
    result = execute(lavapipe, bundle, job)
    assert result.outcome is Outcome.PASSED, result.reason
    assert [timing.metric for timing in result.timings] == ["hot", "cold"]
    for timing in result.timings:
        assert timing.clock == "gpu"
        assert timing.low <= timing.seconds <= timing.high
        assert 1e-6 < timing.seconds < result.seconds
