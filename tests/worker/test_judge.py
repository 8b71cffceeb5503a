"""Verdicts on outputs that are wrong in one way each, run by the NullDevice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import pytest

from vkbench.result import Verdict
from vkbench_shaders.bundle import Bundle, packaged
from vkbench_shaders.catalogue import problem
from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import Problem
from vkbench_shaders.quantisers import quants
from vkbench_shaders.tolerance import LIMITS
from vkbench_worker.judging.distance import without_neighbours
from vkbench_worker.judging.judge import Expected, judge
from vkbench_worker.judging.preparation import for_path, prepare
from vkbench_worker.runner.variants import choose, plan
from vkbench_worker.runtime.null import NullDevice, Shown, run_reference
from vkbench_worker.runtime.program import POISON_A, POISON_B
from vkbench_worker.timing.bench import Bench

ADD = "add/f32/b1_c1_h17_w129"
STRIDED = "add/f32/b2_c3_h5_w7/layout=strided"
COPY = "copy/f32/n31"
HALVES = "copy/f16/n31"

Edit = Callable[[Shown], object]


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return packaged()


def verdict_on(bundle: Bundle, case: str, edit: Edit, path: str = "") -> Verdict:
    """What is said of a kernel that computes the reference, and then does `edit`."""

    def function(posed: Problem, shown: Shown) -> None:
        run_reference(posed, shown)
        edit(shown)

    posed = problem(case)
    device = NullDevice(function)
    chosen = choose(posed, "auto", device.facts)
    prepared = prepare(posed)
    with ExitStack() as stack:
        planned = plan(bundle, chosen, device.facts)
        bench = Bench(device, planned, prepared.storages, stack)
        runs = bench.run(POISON_A), bench.run(POISON_B)
    path = path or chosen.variant.arithmetic
    return judge(posed, path, *runs, for_path(posed, prepared, path).expected)


def nothing(shown: Shown) -> None:
    pass


@pytest.mark.parametrize("case", [ADD, STRIDED, COPY, HALVES, "dequantize/q4_0:y=f16/m3_k64"])
def test_the_reference_passes(bundle: Bundle, case: str) -> None:
    verdict = verdict_on(bundle, case, nothing)
    assert verdict.passed, verdict.reason
    assert (verdict.reason, verdict.first_bad, verdict.unwritten) == ("", "", 0)
    assert verdict.nmse == 0
    assert verdict.compared == verdict.total > 0


@pytest.mark.parametrize("case", [ADD, HALVES, COPY])
def test_an_unwritten_element_is_found(bundle: Bundle, case: str) -> None:
    writes = iter((POISON_A, POISON_B))

    def edit(shown: Shown) -> None:
        y = shown["y"]
        y[5] = np.array([next(writes)], np.uint32).view(y.dtype)[0]

    verdict = verdict_on(bundle, case, edit)
    assert not verdict.passed
    assert verdict.unwritten == 1
    assert "1 of" in verdict.reason
    assert "never written" in verdict.reason
    assert verdict.first_bad.endswith("5]: found the poison")


def test_a_right_value_that_is_the_poison_counts_as_written(bundle: Bundle) -> None:
    def edit(shown: Shown) -> None:
        shown["y"].view(np.uint32)[3] = POISON_A  # after both runs

    verdict = verdict_on(bundle, COPY, edit)
    assert verdict.unwritten == 0
    assert verdict.nonfinite == 1


@pytest.mark.parametrize(("value", "found"), [(np.nan, "nan"), (np.inf, "inf")])
def test_what_is_not_finite_is_found(bundle: Bundle, value: float, found: str) -> None:
    verdict = verdict_on(bundle, ADD, lambda shown: shown["y"].__setitem__(130, value))
    assert not verdict.passed
    assert "NaN or Inf" in verdict.reason
    assert verdict.first_bad == f"y[0,0,1,1]: found {found}"
    assert verdict.nmse is None


@pytest.mark.parametrize("place", [31, 32, 31 + 1000])
def test_a_write_behind_the_buffer_is_found(bundle: Bundle, place: int) -> None:
    verdict = verdict_on(bundle, COPY, lambda shown: shown["y"].__setitem__(place, 1.0))
    assert not verdict.passed
    assert verdict.guard_bytes > 0
    assert f"{(place - 31) * 4} bytes behind it" in verdict.reason


def test_a_write_over_an_inputs_guard_is_found(bundle: Bundle) -> None:
    verdict = verdict_on(bundle, COPY, lambda shown: shown["x"].__setitem__(40, 1.0))
    assert "guard bytes of x were overwritten" in verdict.reason


def test_a_write_in_a_gap_is_found(bundle: Bundle) -> None:
    verdict = verdict_on(bundle, STRIDED, lambda shown: shown["y"].__setitem__(0, 1.0))
    assert not verdict.passed
    assert "gaps of y" in verdict.reason
    assert verdict.guard_bytes == 8


def test_a_relative_error_of_a_thousandth_is_found(bundle: Bundle) -> None:
    verdict = verdict_on(
        bundle, ADD, lambda shown: np.multiply(shown["y"], 1.001, shown["y"]), "f32"
    )
    assert not verdict.passed
    assert verdict.nmse == pytest.approx(1e-6, rel=0.01)
    assert verdict.reason.startswith("NMSE of y is 1e-06, the limit is 1e-10")
    assert "expected" in verdict.first_bad


def test_one_bad_element_is_found_where_the_mean_hides_it(bundle: Bundle) -> None:
    case = "add/f32/b1_c1_h1000_w1000"
    limit = verdict_on(bundle, case, nothing, "f32").max_abs_limit

    def edit(shown: Shown) -> None:
        shown["y"][123456] += np.float32(1.5 * limit)

    verdict = verdict_on(bundle, case, edit, "f32")
    assert verdict.nmse is not None
    assert verdict.nmse < verdict.nmse_limit
    assert verdict.reason.startswith("largest error of y is")
    assert "(1 elements exceed it)" in verdict.reason
    assert verdict.first_bad.startswith("y[0,0,123,456]: found")


def test_runs_that_differ_are_found(bundle: Bundle) -> None:
    calls = iter((0.0, 1e-6))

    def edit(shown: Shown) -> None:
        shown["y"][7] += np.float32(next(calls))

    verdict = verdict_on(bundle, ADD, edit)
    assert not verdict.passed
    assert verdict.unrepeated == 1
    assert "differ between two runs" in verdict.reason


def verdict_of_filling(
    bundle: Bundle, case: str, value: float, wanted: float, path: str
) -> Verdict:
    """What is said of a kernel that fills y with a value where another was wanted."""
    posed = problem(case)
    size = posed.layout("y").storage
    device = NullDevice(lambda _, shown: shown["y"][:size].fill(value))
    with ExitStack() as stack:
        planned = plan(bundle, choose(posed, "auto", device.facts), device.facts)
        bench = Bench(device, planned, prepare(posed).storages, stack)
        runs = bench.run(POISON_A), bench.run(POISON_B)
    expected = Expected(outputs={"y": np.full(posed.array_shape("y"), wanted)})
    return judge(posed, path, *runs, expected)


def test_exact_paths_tell_the_zeros_apart(bundle: Bundle) -> None:
    assert verdict_of_filling(bundle, COPY, -0.0, -0.0, "exact").passed
    verdict = verdict_of_filling(bundle, COPY, 0.0, -0.0, "exact")
    assert not verdict.passed
    assert verdict.first_bad == "y[0]: found 0, expected -0"


@pytest.mark.parametrize("path", ["exact", "f32"])
def test_a_nan_is_right_where_one_is_expected(bundle: Bundle, path: str) -> None:
    other_nan = float(np.array([0xFFF12345], np.uint32).view(np.float32)[0])
    assert verdict_of_filling(bundle, COPY, other_nan, np.nan, path).passed
    for found, wanted in ((1.0, np.nan), (np.inf, -np.inf), (np.nan, np.inf), (np.inf, 1.0)):
        verdict = verdict_of_filling(bundle, COPY, found, wanted, path)
        assert not verdict.passed
        assert verdict.nonfinite == 31
    assert verdict_of_filling(bundle, COPY, -np.inf, -np.inf, path).passed


def test_an_all_zero_reference_wants_zeros(bundle: Bundle) -> None:
    assert verdict_of_filling(bundle, ADD, 0.0, 0.0, "f32").passed
    verdict = verdict_of_filling(bundle, ADD, 1e-30, 0.0, "f32")
    assert not verdict.passed
    assert verdict.nmse is None


def test_only_sampled_rows_are_compared_and_all_are_examined(bundle: Bundle) -> None:
    case = "mul_mat_vec/f32/m5000_n2_k7"
    posed = problem(case)
    prepared = prepare(posed)
    rows = np.array([0, 77, 4999])
    outputs = posed.kernel.check.reference(posed, _inputs(posed), rows)
    expected = Expected(outputs=outputs, rows=rows)

    def said(edit: Edit) -> Verdict:
        def function(posed: Problem, shown: Shown) -> None:
            run_reference(posed, shown)
            edit(shown)

        device = NullDevice(function)
        with ExitStack() as stack:
            planned = plan(bundle, choose(posed, "auto", device.facts), device.facts)
            bench = Bench(device, planned, prepared.storages, stack)
            runs = bench.run(POISON_A), bench.run(POISON_B)
        return judge(posed, "f32", *runs, expected)

    right = said(nothing)
    assert right.passed, right.reason
    assert (right.compared, right.total) == (6, 10000)
    sampled = said(lambda shown: shown["y"].__setitem__(5000 + 77, 9.0))
    assert sampled.first_bad.startswith("y[1,77]: found 9, expected")
    unsampled = said(lambda shown: shown["y"].__setitem__(5000 + 78, np.nan))
    assert unsampled.first_bad == "y[1,78]: found nan"


def _inputs(posed: Problem) -> dict[str, np.ndarray]:
    return posed.kernel.inputs(posed)


SUM = "add/f32/b1_c1_h32_w64"


def scaled(at: int, by: float) -> Edit:
    def edit(shown: Shown) -> None:
        shown["y"][at] *= np.float32(by)

    return edit


def smallest(case: str) -> int:
    """Where the least of the sums lies that is no denormal."""
    expected = prepare(problem(case)).expected.outputs["y"].reshape(-1)
    sizes = np.where(np.abs(expected) < 1e-30, np.inf, np.abs(expected))
    return int(np.argmin(sizes))


def test_a_small_element_is_not_hidden_behind_large_ones(bundle: Bundle) -> None:
    edit = scaled(smallest(SUM), 1 + 1e-5)
    assert verdict_on(bundle, SUM, edit, "f32").passed
    verdict = verdict_on(bundle, SUM, edit, "f32_each")
    assert verdict.reason == "1 elements of y are off by more than 2e-06 of their value"
    assert verdict_on(bundle, SUM, scaled(smallest(SUM), 1 + 1e-6), "f32_each").passed


def stepped(steps: int, every: int) -> Edit:
    def edit(shown: Shown) -> None:
        halves = shown["y"][:4096].view(np.uint16)
        halves[::every] += np.uint16(steps)

    return edit


def test_few_halves_may_be_rounded_to_the_other_neighbour(bundle: Bundle) -> None:
    case = "copy/f16/n4096"
    assert verdict_on(bundle, case, stepped(1, 100), "f32").passed
    assert not verdict_on(bundle, case, stepped(1, 100), "exact").passed
    assert "NMSE of y" in verdict_on(bundle, case, stepped(1, 10), "f32").reason
    assert "NMSE of y" in verdict_on(bundle, case, stepped(32, 100), "f32").reason


def test_zeros_for_the_smallest_numbers_are_no_neighbours_that_count() -> None:
    """A row of bf16 that has many of these may have one that was rounded the other way, too."""
    wanted = np.full(1000, 1, np.uint16)  # the bits of the smallest bf16, which drivers may flush
    wanted[0] = 0x3E75
    found = np.zeros_like(wanted)
    found[0] = 0x3E74
    fmt = format_named("bf16")
    assert np.array_equal(without_neighbours(found, wanted, fmt), wanted)
    wanted[1:], found[1:] = 0x0080, 0x0081  # normal numbers
    assert np.array_equal(without_neighbours(found, wanted, fmt), found)


def deviations_of(case: str, path: str = "int8") -> np.ndarray:
    posed = problem(case)
    return prepare(posed, path=path).expected.deviations["y"]


@pytest.mark.parametrize(("deviations", "passes"), [(-5.9, True), (5.9, True), (6.2, False)])
def test_rounded_inputs_may_shift_each_element_by_its_own_deviations(
    bundle: Bundle, deviations: float, passes: bool
) -> None:
    case = "mul_mat_vec/q4_0/m61_n5_k1024"
    each = deviations_of(case).reshape(-1)
    at = int(np.argsort(each)[len(each) // 2])  # others may be off by more

    def shift(shown: Shown) -> None:
        shown["y"][at] += np.float32(deviations * each[at])

    assert verdict_on(bundle, case, shift, "int8").passed == passes
    assert not verdict_on(bundle, case, shift, "f32").passed


def test_the_limit_on_all_elements_follows_from_what_rounding_does(bundle: Bundle) -> None:
    case = "mul_mat_vec/q4_0/m61_n5_k1024"
    each, exact = deviations_of(case), prepare(problem(case)).expected.outputs["y"]
    verdict = verdict_on(bundle, case, nothing, "int8")
    share = float(np.sum(each**2) / np.sum(exact.astype(float) ** 2))
    assert verdict.nmse_limit == pytest.approx(36 * share, rel=1e-3)
    assert 1e-4 < verdict.nmse_limit < 1e-1


# A row is one block, some of them with the largest scale: these rows carry the RMS of all.
LARGE_ROWS = [
    f"mul_mat/{shape}"
    for shape in ("iq2_xs/m258_n37_k256", "iq2_s/m129_n17_k256", "q4_K/m259_n33_k256")
]


def by_halves(case: str) -> np.ndarray:
    """The products of a case's factors in f16, flat."""
    posed = problem(case)
    weights, x = (
        quants.dequantise(posed.types[name], stored).astype(np.float16).astype(np.float64)
        for name, stored in _inputs(posed).items()
    )
    return (x @ weights.T).astype(np.float32).reshape(-1)


def root_mean_square(case: str) -> float:
    return float(np.sqrt(np.mean(prepare(problem(case)).expected.outputs["y"] ** 2)))


@pytest.mark.parametrize("case", LARGE_ROWS)
def test_honest_halves_pass_where_few_rows_carry_the_rms(bundle: Bundle, case: str) -> None:
    honest = by_halves(case)

    def edit(shown: Shown) -> None:
        shown["y"][: honest.size] = honest

    verdict = verdict_on(bundle, case, edit, "f16_inputs")
    assert verdict.passed, verdict.reason
    expected = prepare(problem(case)).expected.outputs["y"].reshape(-1)
    assert np.abs(honest - expected).max() > 1e-2 * root_mean_square(case)


def test_no_sums_at_all_are_right(bundle: Bundle) -> None:
    assert verdict_on(bundle, "conv1d/f16/n0_c2_w4_o3_s2", nothing, "f16_inputs").passed


@pytest.mark.parametrize("path", ["f16_inputs", "bf16_inputs"])
def test_a_wrong_element_of_a_small_row_is_found(bundle: Bundle, path: str) -> None:
    """It is off by less than a tenth of what an element of a large row may be."""
    case = LARGE_ROWS[0]
    each = deviations_of(case, path).reshape(-1)
    at = int(np.argsort(each)[len(each) // 2])
    assert 10 * 7 * each[at] < 6 * each.max()

    def shift(shown: Shown) -> None:
        shown["y"][at] += np.float32(7 * each[at])

    verdict = verdict_on(bundle, case, shift, path)
    assert "(1 elements exceed it)" in verdict.reason
    assert verdict.nmse is not None
    assert verdict.nmse < verdict.nmse_limit == LIMITS[path].nmse


def test_rows_in_each_other_s_place_are_found_however_small(bundle: Bundle) -> None:
    """Neither the mean of all errors nor a hundredth of the RMS of all elements shows them."""
    case = LARGE_ROWS[0]
    expected = prepare(problem(case)).expected.outputs["y"]
    sizes = np.abs(expected).max(axis=0)
    small = np.argsort(np.where(sizes > 0, sizes, np.inf))[:2]

    def swap(shown: Shown) -> None:
        y = shown["y"][: expected.size].reshape(expected.shape)
        y[:, small] = y[:, small[::-1]]

    assert np.abs(expected[:, small]).max() < 5e-3 * root_mean_square(case)
    verdict = verdict_on(bundle, case, swap, "f16_inputs")
    assert verdict.reason.startswith("largest error of y is ")
    assert verdict.nmse is not None
    assert verdict.nmse < verdict.nmse_limit


@pytest.mark.parametrize(("by", "passes"), [(1, True), (3, False)])
def test_rounded_factors_may_round_narrow_outputs_to_neighbours(
    bundle: Bundle, by: int, passes: bool
) -> None:
    """Where they are more than the few that any path may have."""
    case = "matmul/f16:b=f16:y=f16/b1_m128_n128_k128"

    def step(shown: Shown) -> None:
        y = shown["y"][: 128 * 128]
        largest = int(np.argmax(np.abs(y)))
        y.view(np.uint16)[largest % 10 :: 10] += np.uint16(1)
        y.view(np.uint16)[largest] += np.uint16(by - 1)

    verdict = verdict_on(bundle, case, step, "f16_inputs")
    assert verdict.passed == passes, verdict.reason
