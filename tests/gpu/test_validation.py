"""Vulkan is used as its specification says, synchronisation included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import NoReturn

import pytest

from vkbench.job import Job, Mode, Outcome
from vkbench.settings import Settings
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_worker.runner.execute import execute
from vkbench_worker.runner.variants import choose, plan
from vkbench_worker.runtime.device import Device
from vkbench_worker.runtime.errors import NoValidation, ValidationFailure
from vkbench_worker.runtime.program import Dispatch

CASES = (
    "copy/f16/n65537",
    "add/f32/b2_c3_h5_w7/layout=strided",
    "dequantize/q4_0/m4096_k4096",
    "mul_mat_vec/q8_0/m129_n3_k256",
    "mul_mat/q4_K:x=q8_1/m31_n33_k512/layout=strided",
    "mul_mat_id/iq2_s/e8_u2_m31_n29_k512/layout=strided,x=expert",
    "mul_mat/f32/m1024_n1024_k1024",
)


@pytest.fixture(scope="module")
def validated(
    lavapipe: Device, gpu_settings: Settings, need: Callable[[str, str], NoReturn]
) -> Iterator[Device]:
    try:
        device = Device.open("llvmpipe", replace(gpu_settings, validation=True))
    except NoValidation as error:
        need("validation", str(error))
    with device:
        yield device
        device.raise_messages()


@pytest.mark.parametrize("case", CASES[:-1])
def test_jobs_are_clean(validated: Device, bundle: Bundle, case: str) -> None:
    for mode in (Mode.CORRECTNESS, Mode.PERFORMANCE):
        job = Job(id=1, token=1, case=case, mode=mode, measure_seconds=0.02)
        result = execute(validated, bundle, job)
        assert result.outcome is Outcome.PASSED, result.reason


def test_a_missing_barrier_is_told(validated: Device, bundle: Bundle) -> None:
    posed = problem("copy/f32/n4096")
    planned = plan(bundle, choose(posed, "auto", validated.facts), validated.facts)
    [(made, launch)] = planned.passes
    pipeline = validated.pipeline(made)
    with validated.buffer(4 * 4096) as x, validated.buffer(4 * 4096) as y:
        there = Dispatch(pipeline, [x, y], launch.groups, launch.push)
        back = Dispatch(pipeline, [y, x], launch.groups, launch.push)
        with closing(validated.record([there, back])) as recording:
            recording.run()
    with pytest.raises(ValidationFailure, match="SYNC-HAZARD"):
        validated.raise_messages()
