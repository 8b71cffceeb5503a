"""Jobs of kernels that users declare, on a device that computes with their references."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from planted_own import TIMED, built_own
from planted_steps import CASE as STEPPED
from planted_steps import write_single, write_steps
from vkbench.job import Arm, Job, Mode, Outcome, Pair
from vkbench_shaders.bundle import packaged
from vkbench_shaders.own.building import build
from vkbench_shaders.own.posing import pose_case
from vkbench_worker.judging.shelf import key_of
from vkbench_worker.runner.execute import execute
from vkbench_worker.runner.variants import choose, plan
from vkbench_worker.runtime.null import NullDevice
from vkbench_worker.timing.bench import Bench
from vkbench_worker.timing.paired import execute_pair

JOB = Job(id=1, token=1, case=TIMED, mode=Mode.CORRECTNESS)
PAIR = Job(
    id=1,
    token=1,
    case=TIMED,
    mode=Mode.PAIRED,
    pair=Pair(old=Arm(name=""), metric="hot"),
    measure_seconds=0.02,
)


def device(*features: str) -> NullDevice:
    return NullDevice(features=("int8", "storage8", *features))


def test_a_job_is_done_with_what_its_bundle_declares(tmp_path: Path) -> None:
    result = execute(device(), built_own(tmp_path).bundle, JOB)
    assert (result.outcome, result.variant) == (Outcome.PASSED, "slang")
    assert result.verdict
    assert result.verdict.path == "nmse=0.0001,max_abs=0.05"


def test_a_job_is_skipped_where_a_feature_is_lacking(tmp_path: Path) -> None:
    result = execute(NullDevice(), built_own(tmp_path).bundle, JOB)
    assert result.outcome is Outcome.SKIPPED
    assert result.reason == "slang: needs int8, storage8, which NullDevice lacks"


def test_a_bundle_without_the_kernel_fails() -> None:
    result = execute(device(), packaged(), JOB)
    assert result.outcome is Outcome.ERROR
    assert "has no kernel lab.rms_quant" in result.reason


def test_pairs_are_of_bundles_that_declare_the_same_arrays(tmp_path: Path) -> None:
    old = built_own(tmp_path / "old").bundle
    wider = built_own(tmp_path / "wider", {'groups = ["m"]': 'groups = ["m", 2]'}).bundle
    other = built_own(tmp_path / "other", {'"i8"': '"i16"'}).bundle
    assert execute_pair(device(), old, wider, PAIR).outcome is Outcome.PASSED
    refused = execute_pair(device(), old, other, PAIR)
    assert refused.outcome is Outcome.SKIPPED
    assert "the old bundle declares other arrays" in refused.reason
    refused = execute_pair(device(), packaged(), old, PAIR)
    assert refused.outcome is Outcome.SKIPPED
    assert refused.reason.startswith("old: bundle")


@pytest.mark.usefixtures("glslang")
def test_pairs_may_have_scratch_of_other_sizes(tmp_path: Path) -> None:
    """Or none in one arm; each arm's counters have to be zero."""
    bundles = [
        build(path, "somebody").bundle
        for path in (
            write_single(tmp_path / "single"),
            write_steps(tmp_path / "steps"),
            write_steps(tmp_path / "counted", {'"SPLIT", "m"]': '"SPLIT", "m"]\nzero = true'}),
        )
    ]
    job = replace(PAIR, case=STEPPED)
    for metric in ("hot", "cold"):
        paired = replace(job, pair=Pair(old=Arm(name=""), metric=metric))
        for old, new in permutations(bundles, 2):
            result = execute_pair(NullDevice(), old, new, paired)
            assert result.outcome is Outcome.PASSED, result.reason


@pytest.mark.usefixtures("glslang")
def test_each_arm_binds_its_own_scratch(tmp_path: Path) -> None:
    bundles = [
        build(write_steps(tmp_path / split, {"SPLIT = 4": f"SPLIT = {split}"}), "somebody").bundle
        for split in ("4", "8")
    ]
    device = NullDevice()
    problem = pose_case(bundles[0], STEPPED)
    plans = [
        plan(bundle, choose(pose_case(bundle, STEPPED), "auto", device.facts), device.facts)
        for bundle in bundles
    ]
    with ExitStack() as stack:
        first = Bench(device, plans[0], problem.kernel.inputs(problem), stack)
        other = first.other(plans[1], stack)
        assert other.buffers == first.buffers
        sizes = [
            [buffer.size for buffer in bench.work.bound(bench.buffers)] for bench in (first, other)
        ]
    arrays = [33 * 100 * 4, 400, 132, 132]
    assert sizes == [[*arrays, 4 * 132], [*arrays, 8 * 132]]


def test_prepared_cases_of_two_bundles_are_told_apart(tmp_path: Path) -> None:
    one = built_own(tmp_path / "one").bundle
    other = built_own(tmp_path / "other", {"max_abs = 0.05": "max_abs = 0.06"}).bundle
    assert key_of(pose_case(one, TIMED)) != key_of(pose_case(other, TIMED))
    assert key_of(pose_case(one, "copy/f32/n64")) == key_of(pose_case(other, "copy/f32/n64"))
