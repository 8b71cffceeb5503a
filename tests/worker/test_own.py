"""Jobs of kernels that users declare, on a device that computes with their references."""

from __future__ import annotations

from pathlib import Path

from planted_own import TIMED, built_own
from vkbench.job import Arm, Job, Mode, Outcome, Pair
from vkbench_shaders.bundle import packaged
from vkbench_shaders.own.posing import pose_case
from vkbench_worker.judging.shelf import key_of
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime.null import NullDevice
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


def test_prepared_cases_of_two_bundles_are_told_apart(tmp_path: Path) -> None:
    one = built_own(tmp_path / "one").bundle
    other = built_own(tmp_path / "other", {"max_abs = 0.05": "max_abs = 0.06"}).bundle
    assert key_of(pose_case(one, TIMED)) != key_of(pose_case(other, TIMED))
    assert key_of(pose_case(one, "copy/f32/n64")) == key_of(pose_case(other, "copy/f32/n64"))
