"""Every kernel of the catalogue keeps the promises that the other parts rely on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import pytest

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
from vkbench.errors import NothingToDo, UnknownName, UsageError
from vkbench.messages import wire
from vkbench_shaders.bundle import Bundle, entry_key
from vkbench_shaders.catalogue import KERNELS, describe, expand, kernel_named, problem
from vkbench_shaders.kernel import MOST_GROUPS, Array, Kernel, Problem, Variant
from vkbench_shaders.kernels.matrices import products
from vkbench_shaders.kernels.matrices.cooperative import fragments
from vkbench_shaders.kernels.matrices.vectors import staged
from vkbench_shaders.kernels.quant.quantize import SHARE, count_share
from vkbench_shaders.kernels.shared.cooperative import tiles as coop_tiles
from vkbench_shaders.kernels.shared.rows import STRETCH
from vkbench_shaders.launch import pack
from vkbench_shaders.tolerance import LIMITS
from vkbench_worker.runtime.discovery.matrices import KINDS

FEATURES = {
    "subgroup_arithmetic", "int_dot", "fp16", "storage16", "int8", "storage8", "int64", "fp64",
    "bda", "coopmat", "bf16", "subgroup_size_control", "subgroup_shuffle",
    "subgroup_vote", "subgroup_basic", "device_scope", "timeline", *KINDS,
}  # fmt: skip
SMALLEST = DeviceFacts(
    key="0" * 12, host="h", index=0, name="the smallest", uuid="00", vendor_id=0, device_id=0,
    type="cpu",    memory_bytes=1 << 30, subgroup_size=4,
    features=("subgroup_arithmetic", *KINDS),
    limits={
        "max_workgroup_invocations": 128, "max_workgroup_size_x": 128, "max_shared_bytes": 16384,
        "max_storage_range": 1 << 27, "max_push_bytes": 128, "storage_alignment": 256,
        "max_groups_x": 65535, "max_groups_y": 65535, "max_groups_z": 65535,
    },
)  # fmt: skip
MOST_THREADS = 256  # in a workgroup: as few as a device has that is in use
# groups whose results are never Inf nor all zeros
FINITE = {"quantise", "matmul", "attention", "conv", "recurrent"}
MASKED = {"lightning_indexer"}  # its scores of hidden positions are minus infinity
NEEDED = {"f64": "fp64", "i64": "int64"}  # by formats that not all devices compute with
CASES = [case for kernel in KERNELS for case in kernel.cases]
CHECKED = {case.name for case in CASES}
ALL = [case for kernel in KERNELS for case in (*kernel.cases, *kernel.timed)]
VARIANTS = [(kernel, variant) for kernel in KERNELS for variant in kernel.variants]
# large and awkward ones, too slow to run, for what follows from a shape alone
HUGE = [
    parse("copy/f32/n1000000007"),
    parse("add/f32/b3_c65537_h64_w65"),
    parse("dequantize/q4_0/m1000003_k992"),
    parse("dequantize/q4_0:y=f16/m1000003_k992/layout=strided"),
    parse("copy_from/f16/b1009_m1009_k512/layout=permuted"),
    parse("get_rows/q4_0/m3_n1000003_k4128"),
    parse("mul_mat_vec/q4_0/m1000003_n17_k32"),
    parse("mul_mat/f32/m1000003_n65537_k1"),
    parse("mul_mat_id/q4_0/e1009_u8_m10007_n65537_k32"),
]
# outputs that one workgroup makes
SHARES: dict[str, Callable[[Problem], int]] = {
    "copy": lambda problem: 128 * 64 // problem.item_bytes("y"),
    "add": lambda problem: 128 * 16,
    "dequantize": lambda problem: STRETCH,
    "copy_from": lambda problem: STRETCH,
    "get_rows": lambda problem: STRETCH,
    "quantize": lambda problem: problem.format("y").items(count_share(problem)),
    "set_rows": lambda problem: (
        problem.format("y").items(SHARE) * -(-problem.shape["m"] // problem.shape["n"])
    ),
    "mul_mat_vec": lambda problem: 4 * min(8, problem.shape["n"]),
    "mul_mat_vec_id": lambda problem: 4,
    "mul_mat": lambda problem: 128 * 64,
    # each makes rows of all pairs that use its expert
    "mul_mat_id": lambda problem: 128 * problem.shape["n"] * problem.shape["u"],
}


def grouped(cases: Iterable[Case], parts: int) -> dict[str, list[Case]]:
    """Cases by the first parts of their names: there are too many for a test each."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault("/".join(case.name.split("/")[:parts]), []).append(case)
    return groups


@contextmanager
def about(case: Case) -> Iterator[Problem]:
    """Its problem; what fails meanwhile says which one it was."""
    try:
        yield problem(case)
    except Exception as error:
        error.add_note(case.name)
        raise


@dataclass(frozen=True)
class Answered:
    """A case with its inputs and the whole reference."""

    posed: Problem
    inputs: dict[str, Array]
    outputs: dict[str, Array]


def answer(case: Case) -> Answered:
    """Work a case out."""
    with about(case) as posed:
        inputs = posed.kernel.inputs(posed)
        return Answered(posed, inputs, posed.kernel.check.reference(posed, inputs, None))


def sets(cases: Iterable[Case]) -> pytest.MarkDecorator:
    """A test for each kernel."""
    groups = grouped(cases, 1)
    return pytest.mark.parametrize("cases", groups.values(), ids=groups)


each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
each_variant = pytest.mark.parametrize(
    ("kernel", "variant"),
    VARIANTS,
    ids=[f"{kernel.name}-{variant.name}" for kernel, variant in VARIANTS],
)


@each_kernel
def test_a_kernel_is_described_and_has_cases(kernel: Kernel) -> None:
    assert kernel.description.endswith(".")
    assert kernel.cases
    assert kernel.timed
    assert all(binding.description for binding in kernel.bindings)
    assert all(param.description for param in kernel.params.values())
    assert {binding.access for binding in kernel.bindings} <= {"in", "out", "inout"}
    assert any(binding.is_output for binding in kernel.bindings)
    assert kernel_named(kernel.name.upper()) is kernel


@each_kernel
def test_every_format_and_choice_has_a_case(kernel: Kernel) -> None:
    problems = [problem(case) for case in kernel.cases]
    for types in kernel.type_choices():
        assert any(posed.types == types for posed in problems), types
    for name, param in kernel.params.items():
        if name in staged.OF_A_NAMED_PATH and kernel.name == "mul_mat_vec":
            continue  # tests/gpu/test_staged.py has them
        by_name_alone = set(coop_tiles.NAMES) - set(coop_tiles.EXACT_NAMES)
        assert {posed.params[name] for posed in problems} >= set(param.choices) - by_name_alone


@each_kernel
def test_the_last_variant_runs_everywhere(kernel: Kernel) -> None:
    """Or wherever there are numbers of the kind that the formats are about.

    What a unit of a device reaches can be measured only where it is.
    """
    if kernel.group == "calibrate":
        return
    for types in kernel.type_choices():
        needed = {NEEDED[fmt] for fmt in types.values() if fmt in NEEDED}
        assert set(kernel.variants_for(types)[-1].requires) <= needed
    assert len({variant.name for variant in kernel.variants}) == len(kernel.variants)


@each_variant
def test_a_variant_asks_for_known_features_and_limits(kernel: Kernel, variant: Variant) -> None:
    assert set(variant.requires) <= FEATURES
    assert variant.arithmetic in LIMITS
    assert kernel.check.deviations or not LIMITS[variant.arithmetic].rounding


def test_names_are_unique_and_canonical() -> None:
    assert len({kernel.name for kernel in KERNELS}) == len(KERNELS)
    for kernel in KERNELS:
        for listed in (kernel.cases, kernel.timed):
            assert len({case.name for case in listed}) == len(listed)
    for case in ALL:
        assert problem(case.name).case.name == case.name


@sets(CASES)
def test_inputs_and_references_are_what_their_cases_say(cases: list[Case]) -> None:
    """Those of one choice of formats after the other: arrays of all would be many."""
    for alike in grouped(cases, 2).values():
        answered = [answer(case) for case in alike]
        check_shapes(answered)
        check_not_zero(answered)
        check_sampled_rows(answered)


def check_shapes(answered: list[Answered]) -> None:
    """Inputs and references have the shapes and types that their case says."""
    for each in answered:
        with about(each.posed.case) as posed:
            bindings = posed.kernel.bindings
            assert set(each.inputs) == {b.name for b in bindings if b.is_input}
            assert set(each.outputs) == {b.name for b in bindings if b.is_output}
            for name, array in (*each.inputs.items(), *each.outputs.items()):
                shape = posed.array_shape(name)
                assert shape == posed.layout(name).shape
                assert array.shape == (
                    shape if array.dtype == posed.format(name).dtype else numbers_of(posed, name)
                )
            for name, array in each.inputs.items():
                assert array.dtype == posed.format(name).dtype
            for name, array in each.outputs.items():
                assert array.dtype in (np.float64, posed.format(name).dtype)
                if posed.kernel.name in MASKED:
                    assert not np.isnan(array).any()
                elif posed.kernel.group in FINITE:
                    assert np.all(np.isfinite(array))


def numbers_of(posed: Problem, name: str) -> tuple[int, ...]:
    """The shape of the numbers that an output is made of, which may be stored as blocks."""
    *outer, items = posed.array_shape(name)
    fmt = posed.format(name)
    return (*outer, items * fmt.dtype.itemsize * fmt.elements // fmt.bytes)


def check_not_zero(answered: list[Answered]) -> None:
    """No reference is all zeros, for errors are measured in it.

    Single ones may be: what is equal, where a mask hides all.
    """
    kernel = answered[0].posed.kernel
    for name in [b.name for b in kernel.bindings if b.is_output]:
        whole = [each for each in answered if 0 not in each.posed.shape.values()]
        written = [each.outputs[name] for each in whole]
        zero = [not array.any() for array in written]
        assert kernel.name == "zeros" or not all(zero)
        assert kernel.group not in FINITE or not any(zero)


def check_sampled_rows(answered: list[Answered]) -> None:
    """Sampled rows of a reference are rows of the whole."""
    for each in answered:
        if not each.posed.kernel.check.rows:  # its reference is never sampled
            continue
        with about(each.posed.case) as posed:
            kernel = posed.kernel
            count = posed.shape[kernel.check.rows]
            rows = np.unique([0, count // 2, count - 1]) if count else np.zeros(0, int)
            part = kernel.check.reference(posed, each.inputs, rows)
            for name, array in each.outputs.items():
                dims = kernel.binding(name).dims
                axis = dims.index(kernel.check.rows) - len(dims)  # batches come before
                wanted = array.take(rows, axis=axis)
                np.testing.assert_allclose(part[name], wanted, rtol=1e-12, atol=1e-9)


@sets(CASES)
def test_a_shape_is_inferred_from_the_inputs(cases: list[Case]) -> None:
    for case in cases:
        with about(case) as posed:
            inputs = [binding for binding in posed.kernel.bindings if binding.is_input]
            shapes = {binding.name: posed.array_shape(binding.name) for binding in inputs}
            known = {dim for binding in inputs for dim in binding.dims}
            tells = known >= set(posed.kernel.dims) and posed.kernel.group != "random"
            if tells or posed.kernel.group == "move":
                assert posed.kernel.sizes(shapes, posed.types) == posed.shape
            else:
                with pytest.raises(UsageError, match="give the shape"):
                    posed.kernel.sizes(shapes, posed.types)


SWITCHED = [kernel for kernel in KERNELS if any(binding.when for binding in kernel.bindings)]


@pytest.mark.parametrize("kernel", SWITCHED, ids=lambda kernel: kernel.name)
def test_parameters_switch_inputs_off_and_on(kernel: Kernel) -> None:
    for binding in kernel.bindings:
        for name, values in binding.when.items():
            assert binding.access == "in"
            assert set(values) < set(kernel.params[name].choices)
            reads = {Problem(kernel, case).reads(binding.name) for case in kernel.cases}
            assert reads == {False, True}, binding.name


@pytest.mark.parametrize("kernel", SWITCHED, ids=lambda kernel: kernel.name)
def test_what_is_switched_off_changes_nothing(kernel: Kernel) -> None:
    """By the reference; shaders are held against it."""
    by_params = {str(case.params): case for case in reversed(kernel.cases)}  # the smallest
    for case in by_params.values():
        posed = Problem(kernel, case)
        inputs = kernel.inputs(posed)
        unread = {b.name for b in kernel.bindings if not posed.reads(b.name)}
        assert [name for name in unread if inputs[name].size != 1] == []
        spoilt = {name: np.full_like(inputs[name], np.nan) for name in unread}
        expected = kernel.check.reference(posed, inputs, None)
        for name, array in kernel.check.reference(posed, inputs | spoilt, None).items():
            np.testing.assert_array_equal(array, expected[name])


def test_inputs_that_do_not_fit_each_other_are_refused() -> None:
    for name in ("mul_mat_vec", "mul_mat"):
        kernel = kernel_named(name)
        with pytest.raises(UsageError, match="rows of 8 numbers, x has rows of 9"):
            kernel.sizes({"weights": (3, 8), "x": (1, 9)}, {"weights": "f32", "x": "f32"})
    with pytest.raises(UsageError, match=r"x has 1 dimensions \(n\), got 2"):
        kernel_named("copy").sizes({"x": (3, 8)}, {"x": "f32"})
    with pytest.raises(UsageError, match=r"(four|4) dimensions"):
        kernel_named("add").sizes({"a": (3, 8), "b": (3, 8)}, {"a": "f32", "b": "f32"})


@sets([*ALL, *HUGE])
def test_a_launch_covers_its_output_within_every_device_s_limits(cases: list[Case]) -> None:
    for case in cases:
        with about(case) as posed:
            for variant in posed.kernel.variants_for(posed.types):
                if variant.refuses(posed, SMALLEST):
                    continue
                for launch in variant.launches(posed, SMALLEST):
                    least = 0 if 0 in posed.shape.values() else 1
                    assert all(least <= groups <= MOST_GROUPS for groups in launch.groups)
                if case.kernel in SHARES and not variant.name.startswith(("coopmat", "teams")):
                    *_, launch = variant.launches(posed, SMALLEST)
                    share = SHARES[case.kernel](posed)
                    assert prod(launch.groups) * share >= prod(posed.array_shape("y"))


@sets(ALL)
def test_the_bundle_holds_what_a_launch_runs(cases: list[Case], bundle: Bundle) -> None:
    for case in cases:
        with about(case) as posed:
            for variant in posed.kernel.variants_for(posed.types):
                if variant.refuses(posed, SMALLEST) or not posed.candidates(SMALLEST, variant):
                    continue
                for launch in variant.launches(posed, SMALLEST):
                    entry = bundle.entry(entry_key(variant.stage(launch.entry), posed.types))
                    interface = bundle.interface(entry.key)
                    assert len(pack(launch, interface, entry.key).push) <= 128
                    assert entry.local_size
                    sizes = zip(interface.sized_by, entry.local_size, strict=True)
                    threads = prod(launch.constants.get(name, size) for name, size in sizes)
                    assert threads <= MOST_THREADS


def test_cases_that_no_launch_fits_are_refused() -> None:
    posed = problem("mul_mat_vec/f32/m1_n524281_k1")
    able = posed.kernel.variants_for(posed.types)
    assert all("524280 at most" in str(v.refuses(posed, SMALLEST)) for v in able)


@pytest.mark.parametrize("subgroup_size", [1, 4, 32, 64])
def test_a_workgroup_has_room_for_the_sums_of_its_subgroups(subgroup_size: int) -> None:
    device = replace(SMALLEST, subgroup_size=subgroup_size)
    for n in (1, 3, 8):
        posed = problem(f"mul_mat_vec/q4_0/m5_n{n}_k4096")
        for variant in posed.kernel.variants_for(posed.types):
            if variant.name == fragments.NAME:
                continue  # its matrices are summed up by rows: see test_fragment_product.py
            *_, launch = variant.launches(posed, device)
            threads, room = launch.constants["THREADS"], launch.constants["PARTIAL"]
            assert room >= products.ROWS * n * max(1, threads // subgroup_size)
            assert room >= products.ROWS * threads  # for sums without subgroups


@sets(ALL)
def test_listed_cases_run_on_the_smallest_device(cases: list[Case]) -> None:
    for case in cases:
        with about(case) as posed:
            refused = [variant.refuses(posed, SMALLEST) for variant in posed.kernel.variants]
            wanted = (
                case.name in CHECKED and "tile" not in case.params
            )  # large tiles share more memory
            assert refused[-1] is None or not wanted, refused


def test_expand_lists_what_fits() -> None:
    assert expand() == CASES
    assert {case.format for case in expand("mul_mat_vec", "Q4*")} == {"q4_0", "q4_1", "q4_K"}
    assert {case.kernel for case in expand("MUL_MAT*ID")} == {"mul_mat_id", "mul_mat_vec_id"}
    assert expand("copy", timed=True) == list(kernel_named("copy").timed)
    assert {case.shape["k"] for case in expand("mul_mat_vec", shape={"k": 4096})} == {4096}


def test_expand_makes_a_case_of_a_whole_shape() -> None:
    (case,) = expand("mul_mat_vec", "q4_0", {"k": 64, "n": 2, "m": 3})
    assert case.name == "mul_mat_vec/q4_0/m3_n2_k64"
    shape = {"m": 3, "n": 2, "k": 33}  # not one of blocks of 32
    for kernel in ("mul_mat_vec", "mul_mat"):
        names = [case.name for case in expand(kernel, "*", shape)]
        assert names == [f"{kernel}/{fmt}/m3_n2_k33" for fmt in ("f32", "f16", "bf16")]


def test_expand_says_why_nothing_fits() -> None:
    with pytest.raises(UnknownName, match="did you mean 'mul_mat'"):
        expand("mul_mta")
    with pytest.raises(UnknownName, match="'q4_9'"):
        expand("mul_mat_vec", "q4_9")
    with pytest.raises(UsageError, match="k=33 is no multiple of 32"):
        expand("mul_mat_vec", "q4_0", {"m": 1, "n": 1, "k": 33})
    with pytest.raises(NothingToDo, match="copy has n"):
        expand("copy", shape={"m": 1})


@each_kernel
def test_a_description_can_be_written_as_json(kernel: Kernel) -> None:
    told = describe(kernel)
    assert wire.decode(wire.encode(told), dict) == told
    assert [binding["name"] for binding in told["bindings"]] == [b.name for b in kernel.bindings]  # type: ignore[attr-defined]


def test_long_rows_get_wide_workgroups() -> None:
    posed = problem("mul_mat_vec/q4_0/m1_n1_k32")
    for variant in posed.kernel.variants_for(posed.types):
        launches = [
            variant.launches(problem(f"mul_mat_vec/q4_0/m1_n1_k{k}"), SMALLEST)
            for k in (32, 2048, 14336)
        ]
        threads = [launch.constants["THREADS"] for *_, launch in launches]
        assert threads == sorted(threads)
        assert threads[0] == 32 < threads[-1] <= 128
        assert {bin(each).count("1") for each in threads} == {1}
