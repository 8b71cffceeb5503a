"""Declarations that ship, run on shaders that they are of: ggml's, Kompute's and ncnn's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from vkbench.errors import UsageError
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
    "flash_attn_split",
    "im2col",
    "l2_norm",
    "pool2d",
    "rms_norm_mul",
    "scale",
    "soft_max_sinks",
    "swiglu",
}

# whose products of whole numbers Debian 12's glslc does not compile
NEWER_COMPILER = "mul_mat_vecq"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("glslang"), pytest.mark.timeout(300)]


@pytest.mark.parametrize("year", ["2026", "2024"])
def test_ggmls_shaders_are_right(year: str, ggml_shaders: Path, lavapipe: object) -> None:
    """Each by its first variant, in its first case, which is small."""
    files = sorted(PACKS["ggml-vulkan"].glob("*.toml"))
    files = [file for file in files if year == "2026" or file.stem not in LATER]
    files = [file for file in files if file.stem != NEWER_COMPILER]
    built = [build(file, "somebody", sources=ggml_shaders / year) for file in files]
    results = _judge_first_cases(built)
    assert [result.case for result in results] == [each.kernel.cases[0].name for each in built]
    wrong = {result.case: result.reason for result in results if result.outcome != Outcome.PASSED}
    found = wrong.pop("ggml.group_norm/f32/m3_k67", "")
    assert wrong == {}
    assert ("guard bytes of y were overwritten" in found) == (year == "2024")  # ggml mended it
    assert len(results) >= 19


def test_a_compiler_that_is_too_old_is_said_in_a_line(ggml_shaders: Path) -> None:
    """Or it compiles both steps, for each of the formats."""
    file = PACKS["ggml-vulkan"] / f"{NEWER_COMPILER}.toml"
    try:
        built = build(file, "somebody", sources=ggml_shaders / "2026")
        said = f"{built.kernel.variants[0].steps} steps"
    except UsageError as error:
        said = str(error).partition(": ")[2]
    assert said in (
        "2 steps",
        "variant rows1, step 2 for q4_0: mul_mat_vecq.comp:4: error: '#extension' : "
        "extension not supported: GL_EXT_integer_dot_product",
    )


def test_products_of_whole_numbers_are_right(
    ggml_shaders: Path, new_lavapipe: Path, lavapipe: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a newer compiler makes them, of the first format: each takes lavapipe half a minute."""
    monkeypatch.setenv("PATH", str(new_lavapipe), prepend=os.pathsep)
    file = PACKS["ggml-vulkan"] / f"{NEWER_COMPILER}.toml"
    built = build(file, "somebody", sources=ggml_shaders / "2026")
    [result] = _judge_first_cases([built])
    assert result.case == "ggml.mul_mat_vecq/q4_0/m9_k1280_n3"
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")


def test_ncnns_shaders_are_right(ggml_shaders: Path, lavapipe: object) -> None:
    """Those of October 2026, by the macros of each declaration."""
    files = sorted(PACKS["ncnn"].glob("*.toml"))
    built = [build(file, "somebody", sources=ggml_shaders / "ncnn") for file in files]
    outcomes = {result.case: result.outcome for result in _judge_first_cases(built)}
    assert len(outcomes) == 5
    assert set(outcomes.values()) == {Outcome.PASSED}, outcomes


def test_komputes_shaders_are_right(ggml_shaders: Path, lavapipe: object) -> None:
    """They are named from the root of its tree. The package lacks the example's."""
    files = sorted(PACKS["kompute"].glob("*.toml"))
    root = (ggml_shaders / "kompute").resolve().parents[1]
    built = [
        build(file, "somebody", sources=root)
        for file in files
        if file.stem != "array_multiplication"
    ]
    outcomes = {result.case: result.outcome for result in _judge_first_cases(built)}
    assert outcomes == {
        "kompute.logistic_regression/f32/n5_two2_one1": Outcome.PASSED,
        "kompute.op_mult/f32/n67": Outcome.PASSED,
    }


BARE_RELU = """#version 450
layout(constant_id = 0) const float slope = 0;
layout(constant_id = 1) const uint n = 0;
layout(binding = 0) buffer Numbers { sfpvec4 numbers[]; };
layout(push_constant) uniform Sizes { uint n; } p;

void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i >= psc(n)) return;
    afpvec4 v = buffer_ld4(numbers, i);
    buffer_st4(numbers, i, mix(v, v * afp(slope), lessThan(v, afpvec4(0))));
}
"""


def test_a_shader_without_its_macros_is_right(lavapipe: object, tmp_path: Path) -> None:
    """As ncnn's are: the pack's macros and preamble give types, and the size of workgroups."""
    (tmp_path / "relu.comp").write_text(BARE_RELU)
    built = build(PACKS["ncnn"] / "relu.toml", "somebody", sources=tmp_path)
    names = [case.name for case in built.kernel.cases[:2]]
    assert names == ["ncnn.relu/f32/n68", "ncnn.relu/f16/n68"]
    [result] = _judge_first_cases([built])
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")


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
