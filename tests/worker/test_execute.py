"""Jobs on the NullDevice: judged, timed, skipped, refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from vkbench.errors import UsageError
from vkbench.job import Job, Mode, Outcome
from vkbench.result import DRIVER_FAILED, Result, unpack_samples
from vkbench_shaders.bundle import Bundle, packaged
from vkbench_shaders.catalogue import KERNELS, problem
from vkbench_shaders.kernel import Kernel, Problem
from vkbench_worker.judging.shelf import Shelf
from vkbench_worker.runner import execute as execution
from vkbench_worker.runner.execute import compute, execute
from vkbench_worker.runtime.discovery.matrices import KINDS
from vkbench_worker.runtime.errors import DeviceLost, OutOfMemory, VulkanFailure
from vkbench_worker.runtime.null import Function, NullDevice, Shown, run_reference

SMALL = "add/f32/b1_c1_h17_w129"
LARGE = "add/f32/b1_c1_h300_w400"


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return packaged()


@pytest.fixture(scope="module", autouse=True)
def _small_shelf() -> Iterator[None]:
    """Each case comes once here: a runner's shelf would keep 1 GiB of them for later tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "SHELF", Shelf(16 << 20))
        yield


def run(
    bundle: Bundle,
    case: str,
    function: Function = run_reference,
    *,
    mode: Mode = Mode.CORRECTNESS,
    variant: str = "auto",
    device: NullDevice | None = None,
) -> Result:
    job = Job(id=4, token=2, case=case, mode=mode, variant=variant, measure_seconds=0.05)
    return execute(device or NullDevice(function), bundle, job)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_every_reference_passes_its_own_check(bundle: Bundle, kernel: Kernel) -> None:
    for types in kernel.type_choices():
        cases = [case for case in kernel.cases if Problem(kernel, case).types == types]
        assert cases, types
        needed = {"subgroup_arithmetic", *kernel.variants_for(types)[-1].requires}
        if {"coopmat", "coopmat_bf16"} & {variant.name for variant in kernel.variants_for(types)}:
            needed |= {"coopmat", "device_scope", "subgroup_basic", "fp16", "bf16", *KINDS}
        device = NullDevice(features=sorted(needed))
        device.facts = replace(device.facts, subgroup_size=32)  # as many as large matrices have
        for case in cases:
            result = run(bundle, case.name, device=device)
            assert result.outcome is Outcome.PASSED, (case.name, result.reason)
            assert result.verdict
            assert result.verdict.compared == result.verdict.total, case.name


def test_a_result_says_what_ran_where_and_when(bundle: Bundle) -> None:
    device = NullDevice()
    result = run(bundle, "mul_mat_vec/q4_0/m5_n1_k32", device=device)
    assert (result.job, result.token) == (4, 2)
    assert result.variant == "subgroup"
    assert result.kernel_sha in {entry.sha256 for entry in bundle.entries.values()}
    assert result.device == device.facts.key
    assert result.environment == device.environment.hash
    assert 0 < result.seconds < 10
    assert result.started > 1.7e9


def test_auto_takes_the_best_variant_that_the_device_runs(bundle: Bundle) -> None:
    case = "mul_mat_vec/q4_0/m5_n1_k32"
    bare = NullDevice(features=())
    assert run(bundle, case, device=bare).variant == "portable"
    named = run(bundle, case, device=bare, variant="Subgroup")
    assert named.outcome is Outcome.SKIPPED
    assert "needs subgroup_arithmetic, which NullDevice lacks" in named.reason


def test_timings_come_hot_and_cold_with_all_their_samples(bundle: Bundle) -> None:
    result = run(bundle, SMALL, mode=Mode.PERFORMANCE)
    assert result.outcome is Outcome.PASSED, result.reason
    assert [timing.metric for timing in result.timings] == ["hot", "cold"]
    for timing in result.timings:
        samples = unpack_samples(timing.samples)
        assert len(samples) == timing.count >= 1
        assert timing.best == pytest.approx(min(samples))
        assert timing.low <= timing.seconds <= timing.high
        assert timing.clock == "host"
        assert timing.stop in ("noise", "time")
        assert timing.bytes_moved == 3 * 17 * 129 * 4
        assert timing.flops == 17 * 129


def test_compiling_is_one_sample_of_a_kernel_that_is_right(bundle: Bundle) -> None:
    result = run(bundle, SMALL, mode=Mode.COMPILE)
    assert result.outcome is Outcome.PASSED
    timing, submissions = result.timings
    assert (timing.metric, timing.count, timing.clock) == ("compile", 1, "host")
    assert (submissions.metric, submissions.clock) == ("submit", "host")
    for one in result.timings:
        assert (one.bytes_moved, one.flops) == (0, 0)

    def planted(posed: Problem, shown: Shown) -> None:
        run_reference(posed, shown)
        shown["y"][0] += 1

    result = run(bundle, SMALL, planted, mode=Mode.COMPILE)
    assert (result.outcome, result.timings) == (Outcome.WRONG, ())


def test_right_when_checked_and_wrong_when_timed(bundle: Bundle) -> None:
    def planted(posed: Problem, shown: Shown) -> None:
        run_reference(posed, shown)
        if posed.case.name == LARGE:
            shown["y"][99999] *= np.float32(1.1)

    assert run(bundle, SMALL, planted).outcome is Outcome.PASSED
    timed = run(bundle, LARGE, planted, mode=Mode.PERFORMANCE)
    assert timed.outcome is Outcome.WRONG
    assert timed.timings == ()
    assert timed.verdict
    assert timed.verdict.first_bad.startswith("y[0,0,249,399]")


@pytest.mark.parametrize("launch", [3, 10])
def test_wrong_while_it_is_timed(bundle: Bundle, launch: int) -> None:
    calls = 0

    def planted(posed: Problem, shown: Shown) -> None:
        nonlocal calls
        calls += 1
        run_reference(posed, shown)
        if calls >= launch:
            shown["y"][7] += np.float32(1)

    timed = run(bundle, SMALL, planted, mode=Mode.PERFORMANCE)
    assert timed.outcome is Outcome.WRONG
    assert "changed while it was timed" in timed.reason
    assert timed.timings == ()


def test_a_kernel_that_stops_computing_once_it_was_judged_is_wrong(bundle: Bundle) -> None:
    calls = 0

    def planted(posed: Problem, shown: Shown) -> None:
        nonlocal calls
        calls += 1
        if calls <= 2:
            run_reference(posed, shown)

    timed = run(bundle, SMALL, planted, mode=Mode.PERFORMANCE)
    assert timed.outcome is Outcome.WRONG
    assert timed.timings == ()


def test_too_little_memory_is_a_skip_with_its_reason(bundle: Bundle) -> None:
    device = NullDevice(memory_bytes=1 << 16)
    result = run(bundle, LARGE, device=device)
    assert result.outcome is Outcome.SKIPPED
    assert "65,536 are left" in result.reason or "are left" in result.reason
    assert device.used_bytes == 0


@pytest.mark.parametrize(
    ("error", "outcome", "reason"),
    [
        (OutOfMemory("vkAllocateMemory"), Outcome.SKIPPED, "vkAllocateMemory"),
        (DeviceLost("vkQueueSubmit"), Outcome.DEVICE_LOST, "vkQueueSubmit"),
        (MemoryError(), Outcome.SKIPPED, "the host has not enough memory for this case"),
        (KeyError("x\ny"), Outcome.ERROR, "KeyError: 'x\\ny'"),
        (VulkanFailure("vkCall: VkResult -13"), Outcome.ERROR, "vkCall: VkResult -13"),
    ],
)
def test_whatever_happens_is_in_the_result(
    bundle: Bundle, error: Exception, outcome: Outcome, reason: str
) -> None:
    def planted(posed: Problem, shown: Shown) -> None:
        raise error

    result = run(bundle, SMALL, planted)
    assert (result.outcome, result.reason) == (outcome, reason)
    assert (DRIVER_FAILED in result.telemetry) == isinstance(error, VulkanFailure)


def test_an_unknown_case_is_an_error_with_the_nearest_name(bundle: Bundle) -> None:
    result = run(bundle, "mul_mat_vek/q4_0/m5_n1_k32")
    assert result.outcome is Outcome.ERROR
    assert "did you mean 'mul_mat_vec'" in result.reason


def test_compute_refuses_arrays_that_do_not_fit(bundle: Bundle) -> None:
    posed = problem("copy/f32/n4")
    device = NullDevice()
    with pytest.raises(UsageError, match="needs an array 'x' of float32"):
        compute(device, bundle, posed, "auto", {})
    with pytest.raises(UsageError, match=r"'x' has to be float32 \(4,\); it is float64 \(4,\)"):
        compute(device, bundle, posed, "auto", {"x": np.zeros(4)})
    outputs, variant = compute(device, bundle, posed, "auto", {"x": np.ones(4, np.float32)})
    assert variant == "portable"
    assert np.array_equal(outputs["y"], np.ones(4))
