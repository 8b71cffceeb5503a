"""Declarations that ship, run on the shaders that they are of: those of two releases of ggml."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result
from vkbench.settings import settings
from vkbench_shaders.own.building import Built, build
from vkbench_shaders.own.packs import PACKS
from vkbench_worker.owner.supervisor import Supervisor

# what ggml lacked in October 2024, or launched in another way
LATER = {
    "argsort",  # whose barriers not all threads met
    "diag_mask_inf",
    "flash_attn",
    "im2col",
    "l2_norm",
    "mul_mat_vec_q4_0",
    "mul_mat_vec_q4_k",
    "pool2d",
    "rms_norm_mul",
    "scale",
    "swiglu",
}

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("glslang"), pytest.mark.timeout(300)]


@pytest.mark.parametrize("year", ["2026", "2024"])
def test_ggmls_shaders_are_right(year: str, ggml_shaders: Path, lavapipe: object) -> None:
    """Each by its first variant, in its first case, which is small."""
    files = sorted(PACKS["ggml-vulkan"].glob("*.toml"))
    files = [file for file in files if year == "2026" or file.stem not in LATER]
    built = [build(file, "somebody", sources=ggml_shaders / year) for file in files]
    results = _judge_first_cases(built)
    assert [result.case for result in results] == [each.kernel.cases[0].name for each in built]
    wrong = {result.case: result.reason for result in results if result.outcome != Outcome.PASSED}
    found = wrong.pop("ggml.group_norm/f32/m3_k67", "")
    assert wrong == {}
    assert ("guard bytes of y were overwritten" in found) == (year == "2024")  # ggml mended it
    assert len(results) >= 19


def _judge_first_cases(kernels: Sequence[Built]) -> list[Result]:
    ours, jobs = settings(), []
    for number, built in enumerate(kernels):
        built.bundle.save(ours.cache / "bundles" / built.bundle.sha)
        first = built.kernel.cases[0].name
        job = Job(id=number, token=1, case=first, mode=Mode.CORRECTNESS)
        variant = built.kernel.variants[0].name
        if built.kernel.shadows:
            variant = f"{built.kernel.name}.{variant}"
        jobs.append(replace(job, bundle=built.bundle.sha, variant=variant))
    results: list[Result] = []
    with Supervisor("llvmpipe", ours) as supervisor:
        supervisor.run(jobs, results.append)
    return results
