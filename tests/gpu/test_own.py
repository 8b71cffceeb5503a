"""Kernels of users on a real driver: subgroups as they ask for them, and uniform buffers."""

from __future__ import annotations

from pathlib import Path

import pytest

from planted_tree import CASE, FORMATS, MIXED, write_declaration, write_tree
from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result
from vkbench_shaders.own.building import build
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

pytestmark = pytest.mark.usefixtures("glslang")
EXTENSION = "#extension GL_KHR_shader_subgroup_basic : require\nlayout(constant_id = 0)"
# it is right only where its subgroups are all of the size that THREADS says
COUNTED = {
    "layout(constant_id = 0)": EXTENSION,
    "i < p.count": "i < p.count && gl_SubgroupSize == THREADS && gl_NumSubgroups == 1",
}


def done(
    device: VulkanDevice,
    folder: Path,
    declared: dict[str, str],
    source: dict[str, str],
    case: str = CASE,
) -> Result:
    path = write_declaration(folder / "lab", declared)
    bundle = build(path, "somebody", sources=write_tree(folder / "tree", source)).bundle
    return execute(device, bundle, Job(id=1, token=1, case=case, mode=Mode.CORRECTNESS))


def test_a_launch_is_that_of_the_device_s_subgroups(lavapipe: VulkanDevice, tmp_path: Path) -> None:
    given = {"THREADS = 32 }": 'THREADS = "subgroup_size" }\nfull_subgroups = true'}
    result = done(lavapipe, tmp_path, given, COUNTED)
    assert result.outcome is Outcome.PASSED, result.reason


def test_a_required_size_is_had_or_the_job_is_skipped(
    lavapipe: VulkanDevice, tmp_path: Path
) -> None:
    here = lavapipe.facts.subgroup_size
    for size in (here, 64):
        given = {"THREADS = 32 }": f"THREADS = {size} }}\nsubgroup_size = {size}"}
        result = done(lavapipe, tmp_path / str(size), given, COUNTED)
        if size == here:
            assert result.outcome is Outcome.PASSED, result.reason
        else:
            assert result.outcome is Outcome.SKIPPED
            name = lavapipe.facts.name
            assert f"glsl: requires subgroups of 64, and {name} has those of {here}" in (
                result.reason
            )


def test_a_condition_of_limits_holds_or_the_job_is_skipped(
    lavapipe: VulkanDevice, tmp_path: Path
) -> None:
    """The threads are as many as the device has, by a formula; and one more is too many."""
    most = lavapipe.facts.limits["max_workgroup_invocations"]
    for more in (0, 1):
        where = f'where = ["max_workgroup_invocations >= {most + more}"]'
        given = {"THREADS = 32 }": f'THREADS = "min(512, max_workgroup_size_y)" }}\n{where}'}
        result = done(lavapipe, tmp_path / str(more), given, {})
        if more:
            assert result.outcome is Outcome.SKIPPED
            assert f"is only for max_workgroup_invocations >= {most + 1}, and " in result.reason
            assert f"has max_workgroup_invocations {most}" in result.reason
        else:
            assert result.outcome is Outcome.PASSED, result.reason


UNIFORM = '[[bindings]]\nname = "s"\naccess = "in"\nformat = "f32"\ndims = ["s"]\nbinding = 4\n\n'


def test_a_uniform_buffer_is_read(lavapipe: VulkanDevice, tmp_path: Path) -> None:
    """Its numbers lie as std140 has them: each of an array takes 16 bytes."""
    declared = {"[[variants]]": f"{UNIFORM}[[variants]]", "{ n = 200 }": "{ n = 200, s = 8 }"}
    block = "layout(binding = 4) uniform Scale { float scale[2]; };\nvoid main"
    for place, added in ((4, "scale[1]"), (0, "scale[0]")):
        source = {"void main": block, "(BIASED ? bias[i] : T(0))": added}
        path = write_declaration(tmp_path / added / "lab", declared)
        (path.parent / "scale.py").write_text(
            f"def scaled(inputs, given):\n    return {{'y': inputs['x'] + inputs['s'][{place}]}}\n"
        )
        tree = write_tree(tmp_path / added / "tree", source)
        bundle = build(path, "somebody", sources=tree).bundle
        [declared_case] = bundle.manifest.kernels[0].cases
        for mode in (Mode.CORRECTNESS, Mode.PERFORMANCE):
            job = Job(id=1, token=1, case=declared_case.name, mode=mode, measure_seconds=0.02)
            result = execute(lavapipe, bundle, job)
            assert result.outcome is Outcome.PASSED, result.reason


def test_a_uniform_buffer_may_be_too_large(lavapipe: VulkanDevice, tmp_path: Path) -> None:
    declared = {"[[variants]]": f"{UNIFORM}[[variants]]", "{ n = 200 }": "{ n = 200, s = 99999 }"}
    block = "layout(binding = 4) uniform Scale { float scale[2]; };\nvoid main"
    source = {"void main": block, "(BIASED ? bias[i] : T(0))": "scale[0]"}
    result = done(lavapipe, tmp_path, declared, source, "lab.scale/f32/n200_s99999")
    assert result.outcome is Outcome.SKIPPED, result.reason
    assert "needs a uniform buffer of 399,996 bytes; the device's limit is" in result.reason


def test_one_declaration_is_judged_in_all_its_formats(
    lavapipe: VulkanDevice, tmp_path: Path
) -> None:
    path = write_declaration(tmp_path / "lab", FORMATS)
    bundle = build(path, "somebody", sources=write_tree(tmp_path / "tree", MIXED)).bundle
    for case in bundle.manifest.kernels[0].cases:
        result = execute(
            lavapipe, bundle, Job(id=1, token=1, case=case.name, mode=Mode.CORRECTNESS)
        )
        assert (result.outcome, result.variant) == (Outcome.PASSED, "glsl"), result.reason
