"""Plans: what a selection means, in which order, and what is wrong with one."""

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from planted_runs import DEVICE
from vkbench.calibration import CANARIES, canary_of
from vkbench.case import MODEL, is_model
from vkbench.device import DeviceFacts, device_key
from vkbench.errors import NothingToDo, UnknownName, UsageError
from vkbench.job import Mode, PlannedJob
from vkbench_scheduler.planning import plan as planning
from vkbench_scheduler.planning.plan import count, plan, tasks
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.suites import FEW, NOISE_TIMES, SUITES, Suite, SuiteRow
from vkbench_shaders import formats
from vkbench_shaders.catalogue import KERNELS, problem
from vkbench_shaders.families import families
from vkbench_shaders.models.cases import model_case


def device(name: str, index: int = 0, host: str = "alpha") -> DeviceFacts:
    key = device_key(host, name)
    return replace(
        DEVICE, key=key, host=host, index=index, name=name, uuid=name.encode().hex(), type="cpu"
    )


CPU, GPU = device("llvmpipe (LLVM 15)"), device("NVIDIA H200", 1)
BOTH = [CPU, GPU]


def planned(**changes: object) -> list[PlannedJob]:
    return list(plan(Selection(**changes), [CPU]))  # type: ignore[arg-type]


def of_kernels(jobs: list[PlannedJob]) -> list[PlannedJob]:
    """Those that are not of whole models."""
    return [job for job in jobs if not is_model(job.case)]


EVERYTHING = {kernel.name for kernel in KERNELS}
BLOCKS = {f.kernel.name for f in families() if f.kernel.group != "attention"}
SPINE = {"copy", "add", *BLOCKS}
CALIBRATE = {kernel.name for kernel in KERNELS if kernel.group == "calibrate"}
MODELS = EVERYTHING - CALIBRATE
MAIN = {"silu", "softmax", "rms_norm", "rope", "sum", "argmax", "matmul", "flash_attn"}
# products of vectors of q8_1 alone, which is no format that `quick` times
OF_BYTES = {
    kernel.name
    for kernel in KERNELS
    for binding in kernel.bindings
    if kernel.group == "matmul" and binding.name == "x" and binding.types == ("q8_1",)
}
REDUCTIONS = {"sum", "mean", "max", "argmax"}
HOLDS = {  # kernels checked, kernels timed
    "quick": (MODELS, SPINE - OF_BYTES | MAIN),
    "spine": (SPINE, SPINE),
    "quant": (BLOCKS, set()),
    "quant-perf": (set(), BLOCKS),
    "transformer": (MODELS - BLOCKS, set()),
    "transformer-perf": (set(), MODELS - BLOCKS | {"get_rows", "set_rows"}),
    "calibration": (CALIBRATE, CALIBRATE | {"copy"}),
    "tuning": (set(), {kernel.name for kernel in KERNELS if kernel.tuning}),
    "models-quick": (set(), {MODEL}),
    "models": (set(), {MODEL}),
    "models-batches": (set(), {MODEL}),
    "peers": (
        set(),
        {"matmul", "add", "mul", "silu", *REDUCTIONS, "softmax", "argsort", "cumsum"},
    ),
    "ggml": (
        set(),
        {"mul_mat_vec", "rms_norm", "add_rms_norm", "layer_norm", "swiglu_split", "add"}
        | {"softmax", "rope", "set_rows", "get_rows"},
    ),
}
HOLDS["quick"][1].add(MODEL)
OF_GPUS = ("models", "models-batches")


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_a_suite_has_its_kernels_and_only_real_cases(suite: Suite) -> None:
    device = replace(GPU, type="discrete") if suite.name in OF_GPUS else CPU
    jobs = list(plan(Selection(suite=suite.name), [device]))
    modes = (Mode.CORRECTNESS, Mode.PERFORMANCE)
    for mode, kernels in zip(modes, HOLDS[suite.name], strict=True):
        assert {job.case.split("/")[0] for job in jobs if job.mode is mode} == kernels
    for job in jobs:
        posed = model_case(job.case) if is_model(job.case) else problem(job.case)
        assert posed.case.name == job.case
    again = sum(job.case in CANARIES and job.mode is Mode.PERFORMANCE for job in jobs)
    assert again == (len(CANARIES) + NOISE_TIMES if suite.name == "calibration" else 0)
    once = len({(job.case, job.mode, job.variant) for job in jobs})
    assert once == len(jobs) - max(0, again - len(CANARIES))


@pytest.mark.parametrize("kind", ["cpu", "discrete"])
def test_a_calibration_repeats_the_device_s_own_canary(kind: str) -> None:
    device = replace(CPU, type=kind)
    jobs = list(plan(Selection(suite="calibration"), [device]))
    timed = [job.case for job in jobs if job.mode is Mode.PERFORMANCE]
    often = {case for case in timed if timed.count(case) > 1}
    assert often == {canary_of(kind)}
    assert timed.count(canary_of(kind)) == 1 + NOISE_TIMES
    assert len(jobs) == count(Selection(suite="calibration"), [device])


def test_a_gpu_s_calibration_leaves_out_the_matrices_of_cpu_drivers() -> None:
    kernels = {
        kind: {job.case.split("/")[0] for job in plan(Selection(suite="calibration"), [device])}
        for kind, device in (("cpu", CPU), ("gpu", replace(CPU, type="discrete")))
    }
    assert kernels["cpu"] - kernels["gpu"] == {"matrix_rate_8"}
    assert kernels["gpu"] < kernels["cpu"]


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_every_row_of_a_suite_means_something(suite: Suite) -> None:
    for row in suite.rows:
        assert tasks(replace(suite, rows=(row,), models=()), Selection())
    for models in suite.models:
        assert tasks(replace(suite, rows=(), models=(models,)), Selection())


def test_the_spine_is_all_that_is_checked_of_its_kernels_in_few_formats() -> None:
    checked = {job.case for job in planned(suite="SPINE", mode=Mode.CORRECTNESS)}
    assert checked == {
        case.name
        for kernel in KERNELS
        if kernel.name in SPINE
        for case in kernel.cases
        if set(problem(case).types.values()) <= set(FEW)
    }


def test_quick_has_each_code_path_of_each_kernel_in_each_of_few_formats() -> None:
    jobs = of_kernels(planned(suite="quick", mode=Mode.CORRECTNESS))
    paths_checked = {(job.variant, *problem(job.case).types.items()) for job in jobs}
    assert paths_checked == {
        (variant.name, *types.items())
        for kernel in KERNELS
        if kernel.name in MODELS
        for types in kernel.type_choices()
        if set(types.values()) <= {*FEW, *(() if kernel.name in SPINE else ("u8", "u32"))}
        for variant in kernel.variants_for(types)
    }
    assert len(jobs) < 1500  # two minutes' worth


@pytest.mark.parametrize(
    ("suite", "kernels"), [("quant", BLOCKS), ("transformer", MODELS - BLOCKS)]
)
def test_a_whole_suite_is_every_case_on_every_code_path(suite: str, kernels: set[str]) -> None:
    jobs = planned(suite=suite)
    assert {job.mode for job in jobs} == {Mode.CORRECTNESS}
    checked = {(job.case, job.variant) for job in jobs}
    assert checked == {
        (case.name, variant.name)
        for kernel in KERNELS
        if kernel.name in kernels
        for case in kernel.cases
        for variant in kernel.variants_for(problem(case).types)
    }


WEIGHTS = (*formats.WEIGHTS, *formats.PLAIN)


def test_quant_perf_has_the_sizes_that_others_publish() -> None:
    jobs = planned(suite="quant-perf")
    assert {job.mode for job in jobs} == {Mode.PERFORMANCE}
    cases = {job.case for job in jobs}
    for fmt in WEIGHTS:
        assert {f"mul_mat_vec/{fmt}/m4096_n{n}_k14336" for n in (1, 2, 3, 4, 5, 8)} <= cases
        assert f"mul_mat/{fmt}/m4096_n512_k14336" in cases
    for fmt in formats.WEIGHTS:
        assert {f"mul_mat_vec/{fmt}:x=q8_1/m4096_n{n}_k14336" for n in (1, 2, 3, 4, 5, 8)} <= cases
        assert f"mul_mat/{fmt}:x=q8_1/m4096_n512_k14336" in cases
    for kernel in ("mul_mat_vec_id", "mul_mat_id"):
        names = {case.rpartition("_n")[0] + case[-6:] for case in cases if f"{kernel}/" in case}
        for shape in ("e128_u8_m768_k2048", "e32_u4_m1792_k2048"):
            assert f"{kernel}/q4_0/{shape}" in names


def test_quant_perf_times_products_that_round_their_vectors() -> None:
    chosen = {"suite": "quant-perf", "kernels": ("mul_mat_vec",), "formats": ("q4_0", "f16")}
    via = [job.case for job in planned(**chosen) if job.variant == "via_q8_1"]
    assert via == [f"mul_mat_vec/q4_0/m4096_n{n}_k14336" for n in (1, 2, 4, 8)]
    portable = [job.case for job in planned(**chosen, variant="portable")]
    assert len(portable) == len(set(portable))


def test_a_selection_s_formats_replace_those_of_the_suite() -> None:
    jobs = planned(suite="quick", formats=("q6_K",), kernels=("mul_mat_vec",))
    assert {job.case.split("/")[1].partition(":")[0] for job in jobs} == {"q6_K"}


def test_some_of_each_are_spread_over_all() -> None:
    row = SuiteRow(kernels=("copy",), most_cases=3, mode=Mode.CORRECTNESS)
    suite = Suite(name="some", description="", rows=(row,))
    sizes = [task.case.shape["n"] for task in tasks(suite, Selection()) if "f32" in task.case.name]
    listed = sorted(case.shape["n"] for case in KERNELS[0].cases if case.format == "f32")
    assert (len(sizes), sizes[0], sizes[-1]) == (3, listed[0], listed[-1])
    assert sizes[0] < sizes[1] < sizes[2]


def test_what_is_compiled_is_what_is_timed() -> None:
    chosen = {"suite": "quick", "kernels": ("mul_mat_vec", "silu")}
    timed = planned(**chosen, mode=Mode.PERFORMANCE)
    compiled = planned(**chosen, mode=Mode.COMPILE)
    assert {job.mode for job in compiled} == {Mode.COMPILE}
    assert {(job.case, job.variant) for job in compiled} == {
        (job.case, job.variant) for job in timed
    }
    with pytest.raises(UsageError, match="--property is for kernels"):
        planned(cases=("model/tiny/pp16",), mode=Mode.COMPILE)


def test_both_modes_are_a_job_each() -> None:
    shape = {"m": 64, "n": 1, "k": 256}
    jobs = planned(kernels=("mul_mat_vec",), formats=("q4_0",), shapes=(shape,))
    assert [(job.case, job.mode) for job in jobs] == [
        ("mul_mat_vec/q4_0/m64_n1_k256", Mode.CORRECTNESS),
        ("mul_mat_vec/q4_0/m64_n1_k256", Mode.PERFORMANCE),
    ]


def test_a_suite_can_be_narrowed() -> None:
    jobs = planned(suite="quick", kernels=("DEQUANT*",), mode=Mode.CORRECTNESS)
    assert {job.case.split("/")[0] for job in jobs} == {"dequantize"}
    assert {job.mode for job in jobs} == {Mode.CORRECTNESS}


def test_a_shape_replaces_the_suites() -> None:
    jobs = planned(suite="quick", kernels=("mul_mat_vec",), shapes=({"m": 8, "n": 1, "k": 64},))
    assert {job.case.split("/")[2] for job in jobs} == {"m8_n1_k64"}


def test_the_suite_says_how_long_to_measure_unless_asked() -> None:
    assert {job.measure_seconds for job in planned(suite="quick")} == {0.3}
    assert {job.measure_seconds for job in planned(suite="quick", measure_seconds=3.0)} == {3.0}


NAMED = "mul_mat_vec/q4_0:x=q8_1/m5_n3_k96/layout=strided"  # whatever the lists hold


def test_a_case_goes_by_its_whole_name() -> None:
    jobs = planned(cases=("ADD/f32/b1_c1_h1_w7", NAMED), mode=Mode.CORRECTNESS)
    assert [(job.case, job.variant) for job in jobs] == [
        ("add/f32/b1_c1_h1_w7", "auto"),
        (NAMED, "auto"),
    ]
    every = planned(cases=(NAMED,), variant="all", mode=Mode.PERFORMANCE)
    assert [job.variant for job in every] == ["int_dot", "portable"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"cases": ("copy/f32/n5",), "kernels": ("copy",)},
            "leave out --suite, --kernel, --format and --shape",
        ),
        ({"cases": ("copy/f32",)}, "malformed case 'copy/f32'"),
        ({"cases": ("copy/f32/m5",)}, "copy has the shape n=.."),
        ({"cases": ("mul_mat_vec/q4_0/m1_n1_k32/weights=0123456789abcdef",)}, "give --gguf"),
    ],
)
def test_a_case_that_cannot_be_meant_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as raised:
        planned(**changes)
    assert words in str(raised.value)


def paths(jobs: list[PlannedJob]) -> dict[tuple[str, Mode], set[str]]:
    variants: dict[tuple[str, Mode], set[str]] = {}
    for job in jobs:
        variants.setdefault((job.case.split("/")[0], job.mode), set()).add(job.variant)
    return variants


def test_a_suite_checks_every_code_path_and_times_the_best() -> None:
    every = {k.name: {variant.name for variant in k.variants} for k in KERNELS}
    left_out = {
        "coopmat_bf16",
        "coopmat_to_bf16",
        "fp64",
        "bits",
    }  # of formats that the suite is without
    for (kernel, mode), variants in paths(planned(suite="quick")).items():
        assert variants == (every[kernel] - left_out if mode is Mode.CORRECTNESS else {"auto"})
    timed = of_kernels(planned(suite="quick", variant="ALL", mode=Mode.PERFORMANCE))
    assert {(job.case, job.variant) for job in timed} == {
        (job.case, variant.name)
        for job in timed
        for posed in [problem(job.case)]
        for variant in posed.kernel.variants_for(posed.types)
    }


def test_a_variant_leaves_out_kernels_without_it() -> None:
    jobs = planned(variant="Subgroup")
    having = {k.name for k in KERNELS if "subgroup" in [variant.name for variant in k.variants]}
    assert {job.case.split("/")[0] for job in jobs} == having


def test_repeats_and_devices_multiply() -> None:
    once = Selection(suite="quick", devices=("llvmpipe",))
    often = Selection(suite="quick", repeat=3)
    assert count(often, BOTH) == 6 * count(once, BOTH) == len(list(plan(often, BOTH)))


def test_repeated_checks_have_other_inputs_and_timings_the_same() -> None:
    names = ("copy/f16/n64", "add/f32/b1_c1_h17_w129/seed=7")
    jobs = list(plan(Selection(cases=names, repeat=3), [CPU]))
    checked = [job.case for job in jobs if job.mode is Mode.CORRECTNESS]
    assert checked == [
        *("copy/f16/n64", "add/f32/b1_c1_h17_w129/seed=7"),
        *("copy/f16/n64/seed=1", "add/f32/b1_c1_h17_w129/seed=7"),
        *("copy/f16/n64/seed=2", "add/f32/b1_c1_h17_w129/seed=7"),
    ]
    assert {job.case for job in jobs if job.mode is Mode.PERFORMANCE} == set(names)


def test_a_plan_is_never_whole_in_memory() -> None:
    one = count(Selection(suite="quick"), [CPU])
    times = 100_000 // one
    jobs = plan(Selection(suite="quick", repeat=times), [CPU])
    assert isinstance(jobs, Iterator)
    next(jobs)
    tracemalloc.start()
    try:
        assert sum(1 for _ in jobs) == times * one - 1
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"suite": "quik"}, UnknownName, "unknown suite 'quik'; did you mean 'quick'"),
        ({"kernels": ("copi",)}, UnknownName, "unknown kernel 'copi'; did you mean 'copy'"),
        ({"kernels": ("copy", "x?")}, UnknownName, "unknown kernel"),
        ({"formats": ("q4_9",)}, UnknownName, "unknown format 'q4_9'; did you mean"),
        ({"variant": "subgrup"}, UnknownName, "unknown variant 'subgrup'; did you mean"),
        ({"devices": ("llvmpip3",)}, UnknownName, "unknown device 'llvmpip3'"),
        (
            {
                "kernels": ("mul_mat_vec",),
                "formats": ("q4_0",),
                "shapes": ({"m": 1, "n": 1, "k": 33},),
            },
            UsageError,
            "k=33",
        ),
        ({"shapes": ({"q": 1009},)}, NothingToDo, "q=1009"),
    ],
)
def test_a_bad_selection_says_what_is_wrong_at_once(
    changes: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as raised:
        plan(Selection(**changes), [CPU])  # type: ignore[arg-type]
    assert words in str(raised.value)


def test_planning_a_suite_again_does_a_fraction_of_the_work() -> None:
    planning._cases_of_row.cache_clear()
    whole, again = (calls(lambda: planned(suite="quick")) for _ in range(2))
    assert again < whole / 4


def calls(work: Callable[[], object]) -> int:
    """How many functions were called."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_peers_are_asked_for_what_they_are_known_for() -> None:
    """Each case once, and as many jobs more for each peer; other ones on CPU drivers."""
    gpu = replace(GPU, type="discrete")
    own = [job.case for job in plan(Selection(suite="peers"), [gpu])]
    assert len(own) == len(set(own)) > 100
    assert {"conv2d", "flash_attn", "mul_mat", "mul_mat_vec"} < {c.split("/")[0] for c in own}
    jobs = list(plan(Selection(suite="peers", peers=("torch", "ggml")), [gpu]))
    assert [job.case for job in jobs if job.mode is Mode.PERFORMANCE] == own
    compared = {(job.case, job.variant) for job in jobs if job.mode is Mode.PEER}
    assert compared == {(case, peer) for case in own for peer in ("torch", "ggml")}


def test_what_peers_are_known_for_is_compared_on_cpu_drivers_too() -> None:
    jobs = list(plan(Selection(suite="peers", peers=("numpy",)), [replace(GPU, type="cpu")]))
    timed = [job.case for job in jobs if job.mode is Mode.PERFORMANCE]
    assert [job.case for job in jobs if job.mode is Mode.PEER] == timed != []
