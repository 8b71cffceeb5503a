"""Whether a row's bits depend on how many rows there are: parts of a case beside the whole."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from vkbench.case import parse
from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result
from vkbench_shaders.bundle import packaged
from vkbench_shaders.catalogue import KERNELS, kernel_named, problem
from vkbench_shaders.kernel import Kernel, Problem
from vkbench_shaders.kernels.batches import dims_of, parts
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime.null import Function, NullDevice, Shown, run_reference

CASES = ("mul_mat/q4_0/m31_n33_k64", "rms_norm/f32/b1_c2_h3_w511", "top_k/f32/h3_w50_k5")


def judged(case: str, function: Function = run_reference) -> Result:
    job = Job(id=1, token=1, case=case, mode=Mode.BATCH)
    return execute(NullDevice(function), packaged(), job)


def by_rows(dim: str, few: int, posed: Problem, shown: Shown) -> None:
    """Right to the last bit but one where there are few rows."""
    run_reference(posed, shown)
    if posed.shape[dim] <= few:
        y = shown["y"][: posed.layout("y").storage]
        y[-1] = np.nextafter(y[-1], np.float32(np.inf))


@pytest.mark.parametrize("case", CASES)
def test_rows_that_are_the_same_in_every_part_pass(case: str) -> None:
    sizes: list[tuple[int, ...]] = []

    def function(posed: Problem, shown: Shown) -> None:
        sizes.append(tuple(posed.shape.values()))
        run_reference(posed, shown)

    result = judged(case, function)
    assert result.outcome is Outcome.PASSED, result.reason
    assert result.timings == ()
    assert sizes[0] == sizes[1] == tuple(parse(case).shape.values())  # as in any check
    assert len(set(sizes)) == 1 + len(set(sizes[2:])) >= 3


@pytest.mark.parametrize(
    ("case", "dim", "few"),
    [
        ("mul_mat/q4_0/m31_n33_k64", "n", 1),
        ("mul_mat/q4_0/m31_n33_k64", "n", 20),
        ("rms_norm/f32/b1_c2_h3_w511", "h", 2),
    ],
)
def test_rows_that_change_with_their_number_are_wrong(case: str, dim: str, few: int) -> None:
    result = judged(case, partial(by_rows, dim, few))
    assert result.outcome is Outcome.WRONG
    assert f"of y have other bits with {dim} " in result.reason
    assert "1 of " in result.reason
    assert f"than with {dim} {parse(case).shape[dim]} (" in result.reason
    assert result.verdict
    assert result.verdict.unrepeated == 1
    assert result.verdict.first_bad.startswith("y[")


def test_a_wrong_case_is_wrong_by_its_values() -> None:
    def nothing(posed: Problem, shown: Shown) -> None:
        """Write nothing."""

    result = judged(CASES[0], nothing)
    assert result.outcome is Outcome.WRONG
    assert "never written" in result.reason


@pytest.mark.parametrize("case", ["mul_mat_vec/f32/m129_n1_k256", "copy/f32/n64"])
def test_what_has_one_row_is_skipped(case: str) -> None:
    result = judged(case)
    assert result.outcome is Outcome.SKIPPED
    assert result.reason == "it has no rows that know nothing of each other, or only one"


TRIED = [kernel for kernel in KERNELS if dims_of(kernel)]


def test_most_kernels_have_rows_that_know_nothing_of_each_other() -> None:
    assert len(TRIED) > 120
    names = {kernel.name for kernel in TRIED}
    assert names >= {"mul_mat", "mul_mat_id", "flash_attn", "softmax", "conv2d", "rwkv_wkv7"}
    assert not names & {"set_rows", "adam", "rand_uniform", "count_equal"}


@pytest.mark.parametrize("kernel", TRIED, ids=lambda kernel: kernel.name)
def test_a_case_of_each_has_rows_that_know_nothing_of_each_other(kernel: Kernel) -> None:
    """By its reference, which is the kernel here: by BLAS its last bits may depend on shapes."""
    smallest = min(
        (posed for case in kernel.cases if any(parts(posed := problem(case)))),
        key=lambda posed: posed.storage_bytes,
    )
    result = judged(smallest.case.name)
    assert result.outcome in (Outcome.PASSED, Outcome.WRONG), result.reason
    assert result.outcome is Outcome.PASSED or "have other bits with" in result.reason


def test_rows_that_depend_on_each_other_are_told_by_the_reference() -> None:
    """A part of what is summed has another sum."""
    reduced = next(
        problem(case)
        for case in kernel_named("sum").cases
        if problem(case).array_shape("y")[-2] == 1 < case.shape["h"]
    )
    assert judged(reduced.case.name).outcome is Outcome.SKIPPED


def test_parts_are_one_row_a_half_and_all_but_one() -> None:
    def rows(case: str) -> list[tuple[int, int]]:
        return [(part.rows.start, part.rows.stop) for part in parts(problem(case))]

    assert rows("mul_mat_vec/f32/m3_n8_k4") == [(4, 5), (4, 8), (0, 7)]
    assert rows("mul_mat_vec/f32/m3_n3_k4") == [(1, 2), (2, 3), (0, 2)]
    assert rows("mul_mat_vec/f32/m3_n2_k4") == [(1, 2), (0, 1)]
    assert rows("mul_mat_vec/f32/m3_n1_k4") == []
