"""Vulkan is used as its specification says: synchronisation, and what shaders access, included.

These are a few cases; `make validate` runs all kernels and variants.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from planted_model import Tiny, write_model
from planted_own import write_doubling
from planted_probe import STRAY, compiled
from vkbench.job import Job, Mode, Outcome, Source
from vkbench.settings import Settings
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.models.cases import name_of
from vkbench_shaders.own.building import build
from vkbench_worker.models.execute import execute_model
from vkbench_worker.runner.execute import execute
from vkbench_worker.runner.variants import choose, plan
from vkbench_worker.runtime.device import Barrier, Dispatch
from vkbench_worker.runtime.errors import NoValidation, ValidationFailure
from vkbench_worker.runtime.program import Program
from vkbench_worker.runtime.vulkan.device import VulkanDevice

CASES = (
    "copy/f16/n65537",
    "add/f32/b2_c3_h5_w7/layout=strided",
    "dequantize/q4_0/m4096_k4096",
    "mul_mat_vec/q8_0/m129_n3_k256",
    "mul_mat_vec_add/f16/m96_n3_k512",
    "mul_mat_vec_swiglu/f16/m96_n3_k512",
    "mul_mat_vec_rms/bf16:x=f32/m109_n3_k512",
    "mul_mat/q4_K:x=q8_1/m31_n33_k512/layout=strided",
    "mul_mat_id/iq2_s/e8_u2_m31_n29_k512/layout=strided,x=expert",
    "mul_mat/f32/m1024_n1024_k1024",
)
# Older layers hold an access against the whole VkBuffer, of which a buffer here is a part.
BESIDE, FAR = 2**16, 10 * 2**22


@pytest.fixture(scope="module")
def validated(
    lavapipe: VulkanDevice, gpu_settings: Settings, need: Callable[[str, str], NoReturn]
) -> Iterator[VulkanDevice]:
    yield from opened(replace(gpu_settings, validation=True), need)


@pytest.fixture(scope="module")
def assisted(
    lavapipe: VulkanDevice, gpu_settings: Settings, need: Callable[[str, str], NoReturn]
) -> Iterator[VulkanDevice]:
    yield from opened(replace(gpu_settings, validation=True, gpu_assisted=True), need)


def opened(ours: Settings, need: Callable[[str, str], NoReturn]) -> Iterator[VulkanDevice]:
    try:
        device = VulkanDevice.open("llvmpipe", ours)
    except NoValidation as error:
        need("validation", str(error))
    with device:
        yield device
        device.raise_messages()


def test_inputs_are_brought_back_cleanly(validated: VulkanDevice, tmp_path: Path) -> None:
    own = build(write_doubling(tmp_path / "own"), "somebody")
    [case] = own.kernel.cases
    job = Job(id=1, token=1, case=case.name, mode=Mode.PERFORMANCE, measure_seconds=0.02)
    result = execute(validated, own.bundle, job)
    assert result.outcome is Outcome.PASSED, result.reason
    assert [timing.metric for timing in result.timings] == ["hot", "cold"]


@pytest.mark.parametrize("case", CASES[:-1])
def test_jobs_are_clean(validated: VulkanDevice, bundle: Bundle, case: str) -> None:
    for mode in (Mode.CORRECTNESS, Mode.PERFORMANCE):
        job = Job(id=1, token=1, case=case, mode=mode, measure_seconds=0.02)
        result = execute(validated, bundle, job)
        assert result.outcome is Outcome.PASSED, result.reason


@pytest.mark.parametrize(
    ("tiny", "case", "variant"),
    [
        (Tiny(arch="qwen3moe", experts=4), "pp20", "plain"),
        (Tiny(arch="qwen3moe", experts=4), "tg9/batch=2", "plain"),
        (Tiny(fmt="f16"), "tg9/batch=2", "joined"),
        (Tiny.wide(fmt="q4_0"), "tg9", "joined"),
        (Tiny.wide(fmt="q4_K", layers=3), "pp70", "plain"),
        (Tiny.wide(fmt="iq2_xs,q6_K,f16", layers=3), "pp70", "plain"),
        (Tiny.of("mamba2"), "tg9/batch=2", "joined"),
        (Tiny.of("rwkv7"), "pp20", "plain"),
        (Tiny.of("qwen35"), "tg9/batch=2", "plain"),
    ],
)
def test_models_are_clean(
    validated: VulkanDevice, bundle: Bundle, tmp_path: Path, tiny: Tiny, case: str, variant: str
) -> None:
    """Launches of one level, and the buffers that values share, too."""
    path = write_model(tmp_path / "tiny.gguf", tiny)
    job = Job(
        id=1,
        token=1,
        case=f"model/{name_of(open_gguf(path))}/{case}",
        mode=Mode.PERFORMANCE,
        variant=variant,
        measure_seconds=0.02,
        source=Source(path=str(path), tensor=""),
    )
    result = execute_model(validated, bundle, job)
    assert result.outcome is Outcome.PASSED, result.reason


def test_a_missing_barrier_is_told(validated: VulkanDevice, bundle: Bundle) -> None:
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


@pytest.mark.parametrize("case", CASES[:2])
def test_shaders_that_check_themselves_are_clean(
    assisted: VulkanDevice, bundle: Bundle, case: str
) -> None:
    result = execute(assisted, bundle, Job(id=1, token=1, case=case, mode=Mode.CORRECTNESS))
    assert result.outcome is Outcome.PASSED, result.reason


def test_a_stray_write_is_told(
    assisted: VulkanDevice, drivers: Mapping[str, str], tmp_path: Path
) -> None:
    is_newer = Path(drivers["llvmpipe"]).is_relative_to(sys.prefix)
    code = compiled(STRAY, tmp_path)
    assert not assisted.instance.messages
    stray(assisted, code, 0)
    assisted.raise_messages()
    stray(assisted, code, BESIDE if is_newer else FAR)
    with pytest.raises(ValidationFailure, match="access out of bounds"):
        assisted.raise_messages()


def stray(device: VulkanDevice, code: bytes, word: int) -> None:
    """Write to a word of a buffer, counted from its first."""
    program = Program(
        code=code, sha=sha256(code).hexdigest(), bindings=(0, 1), push_bytes=0, constants=()
    )
    with device.buffer(4) as x, device.buffer(4) as y, device.buffer(2 * 4 * BESIDE):
        x.upload(np.array([word], np.uint32))
        dispatch = Dispatch(device.pipeline(program), [x, y], (1, 1, 1), b"")
        with closing(device.record([dispatch, Barrier()])) as recording:
            recording.run()
