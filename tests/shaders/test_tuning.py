"""Tunable parameters: candidates are what launches take, and tables hold what the catalogue has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import vkbench_shaders.tuning
from planted_devices import MATRICES
from vkbench.configuration import parse
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench.messages.wire import MalformedMessage
from vkbench.settings import settings
from vkbench_shaders.catalogue import KERNELS, problem
from vkbench_shaders.kernel import Kernel, Problem, Settings
from vkbench_shaders.kernels.attention import flash_plan
from vkbench_shaders.tuning import classes, tables
from vkbench_shaders.tuning import thresholds as measured
from vkbench_shaders.tuning.classes import ANY, CLASSES, DeviceClass, class_of, installed_path
from vkbench_shaders.tuning.configurations import configurations, for_auto, obstacle
from vkbench_shaders.tuning.estimates import Peaks
from vkbench_shaders.tuning.rates import busy, rates_of
from vkbench_shaders.tuning.tables import Table, Tuned
from vkbench_shaders.tuning.thresholds import GROUPS, Attention, MatrixProducts, thresholds

DEVICE = DeviceFacts(
    key="0" * 12, host="h", index=0, name="NVIDIA H100 80GB HBM3", uuid="00", vendor_id=0x10DE,
    device_id=0, type="discrete", memory_bytes=1 << 40, subgroup_size=32,
    features=("int_dot", "subgroup_arithmetic", "subgroup_shuffle", "coopmat", "fp16", "storage16",
              "device_scope", "subgroup_basic", "matrix_f16_f32", "matrix_f16_f16",
              "matrix_bf16_f32"),
    limits={"max_storage_range": 1 << 40, "max_shared_bytes": 49152,
            "max_workgroup_invocations": 1024},
)  # fmt: skip
SMALL = replace(DEVICE, limits={**DEVICE.limits, "max_workgroup_invocations": 256})
TUNABLE = [kernel for kernel in KERNELS if kernel.tuning]
SHIPPED = sorted(Path(vkbench_shaders.tuning.__file__).parent.glob("*.json"))


def candidates_of(posed: Problem, device: DeviceFacts = DEVICE) -> list[Settings]:
    """Of the variant that runs everywhere."""
    return posed.candidates(device, posed.kernel.variants[-1])


@pytest.mark.parametrize("kernel", TUNABLE, ids=lambda kernel: kernel.name)
def test_the_first_candidate_is_what_runs_without_settings(kernel: Kernel) -> None:
    for case in (*kernel.cases[::7], *kernel.timed[::3]):
        posed = Problem(kernel, case)
        for variant in kernel.variants_for(posed.types):
            if not obstacle(posed, variant, DEVICE):
                candidates = posed.candidates(DEVICE, variant)
                assert len({str(each) for each in candidates}) == len(candidates)
                chosen = replace(posed, settings=candidates[0])
                assert variant.launches(posed, DEVICE) == variant.launches(chosen, DEVICE)
                assert variant.own.scratch(posed, DEVICE) == variant.own.scratch(chosen, DEVICE)


@pytest.mark.parametrize("kernel", TUNABLE, ids=lambda kernel: kernel.name)
def test_settings_are_values_that_their_parameters_take(kernel: Kernel) -> None:
    for case in (kernel.timed[0], *kernel.timed[1::7]):
        posed = Problem(kernel, case)
        for variant in kernel.variants_for(posed.types):
            for candidate in posed.candidates(DEVICE, variant):
                assert kernel.settings(candidate) == candidate
    for candidate in candidates_of(Problem(kernel, kernel.timed[0])):
        assert all(value != kernel.params[name].default for name, value in candidate.items())


def test_a_value_that_the_case_names_is_no_choice() -> None:
    posed = problem("matmul/f32/b1_m64_n64_k4096/split=2")
    assert {each["split"] for each in candidates_of(posed)} == {2}
    assert len(candidates_of(posed)) > 1
    assert replace(posed, settings={"split": 8}).params["split"] == 2


def test_what_a_device_cannot_take_is_no_candidate() -> None:
    posed = problem("sum/f32/b1_c1_h64_w4096")
    for device, expected in ((DEVICE, {64, 128, 256, 512, 1024}), (SMALL, {64, 128, 256})):
        assert {each["threads"] for each in candidates_of(posed, device)} == expected
    asked = replace(posed, settings={"threads": 512})
    assert obstacle(asked, posed.kernel.variants[0], SMALL) == "cannot have threads=512 there"
    with pytest.raises(UsageError, match="value of sum's threads"):
        posed.kernel.settings({"threads": 100})
    with pytest.raises(UsageError, match="unknown tunable parameter of sum"):
        posed.kernel.settings({"layout": "strided"})


def test_a_case_is_swept_over_variants_and_their_settings() -> None:
    posed = problem("mul_mat_vec/q4_0:x=q8_1/m64_n1_k4096")
    found = [each.name for each in configurations(posed, DEVICE, most=2)]
    assert [name.partition(":")[0] for name in found] == ["int_dot"] * 2 + ["portable"] * 2
    assert found[0] == "int_dot:threads=64"
    lacking = replace(DEVICE, features=())
    assert {each.variant for each in configurations(posed, lacking, most=2)} == {"portable"}


@pytest.mark.parametrize(
    ("name", "vendor", "type", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", 0x10DE, "discrete", "nvidia-hopper"),
        ("NVIDIA GeForce RTX 4090", 0x10DE, "discrete", "unknown"),
        ("AMD Radeon RX 7900 XTX (RADV NAVI31)", 0x1002, "discrete", "amd-rdna"),
        ("AMD Instinct MI300X", 0x1002, "discrete", "unknown"),
        ("Intel(R) Arc(tm) A770 Graphics (DG2)", 0x8086, "discrete", "intel-xe"),
        ("llvmpipe (LLVM 15.0.6, 256 bits)", 0x10005, "cpu", "cpu"),
    ],
)
def test_devices_have_a_class(name: str, vendor: int, type: str, expected: str) -> None:
    assert class_of(replace(DEVICE, name=name, vendor_id=vendor, type=type)).name == expected


def test_each_class_ships_a_table() -> None:
    assert {path.stem for path in SHIPPED} == {each.name for each in CLASSES} | {ANY}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_what_ships_can_run(path: Path) -> None:
    table = tables.read(path.read_bytes())
    assert table.device_class == path.stem
    assert path.read_bytes() == tables.encode(table)
    is_measured = bool(table.tuned or table.thresholds or table.peaks)
    assert is_measured == bool(table.sources)
    for tuned in table.tuned:
        posed = problem(tuned.case)
        assert posed.case.name == tuned.case
        for name in (tuned.configuration, tuned.estimated):
            known = parse(name)
            assert known.variant in [each.name for each in posed.kernel.variants_for(posed.types)]
            assert posed.kernel.settings(known.settings) == known.settings


def tuned(case: str, threads: int) -> Tuned:
    return Tuned(
        case=case, configuration=f"portable:threads={threads}", seconds=1e-6,
        estimated="portable:threads=256", estimated_seconds=2e-6,
    )  # fmt: skip


def test_a_table_is_for_sizes_that_round_to_the_same_powers_of_two() -> None:
    table = Table(
        device_class="cpu",
        tuned=(
            tuned("sum/f32/b1_c1_h64_w4096", 512),
            tuned("sum/f32/b1_c1_h64_w5000", 1024),
            tuned("sum/f32/b1_c1_h64_w4096/axes=h", 64),
        ),
    )
    for case, expected in (
        ("sum/f32/b1_c1_h64_w4096", 512),
        ("sum/f32/b1_c1_h60_w3900", 512),
        ("sum/f32/b1_c1_h64_w5100", 1024),
        ("sum/f32/b1_c1_h64_w4096/axes=h", 64),
    ):
        assert table.configuration(problem(case)) == f"portable:threads={expected}"
    for case in (
        "sum/f32/b1_c1_h64_w16384",
        "sum/f16/b1_c1_h64_w4096",
        "max/f32/b1_c1_h64_w4096",
        "sum/f32/b1_c1_h64_w4096/layout=strided",
    ):
        assert table.configuration(problem(case)) == ""


def test_other_inputs_run_with_the_same_configuration() -> None:
    case = "mul_mat_vec/q4_0/m4096_n1_k14336"
    tuned = Tuned(case=case, configuration="x", seconds=1.0, estimated="y", estimated_seconds=2.0)
    assert Table(tuned=(tuned,)).configuration(problem(f"{case}/seed=3")) == "x"


def test_an_installed_table_goes_before_the_one_that_ships(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VKBENCH_DATA", str(tmp_path))
    settings.cache_clear()
    tables.read_installed.cache_clear()
    posed = problem("sum/f32/b1_c1_h64_w4096")
    table = Table(device_class="nvidia-hopper", tuned=(tuned(posed.case.name, 64),))
    path = installed_path("nvidia-hopper")
    assert path.is_relative_to(tmp_path)
    path.parent.mkdir()
    path.write_bytes(tables.encode(table))
    try:
        assert tables.configuration(posed, DEVICE) == "portable:threads=64"
    finally:
        tables.read_installed.cache_clear()
        settings.cache_clear()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("vkbench-tuning", "other", "no tuning table"),
        ('"version": 1', '"version": 2', "version"),
        ("sum/f32", "sun/f32", "unknown kernel"),
        ('"device_class": "cpu"', '"device_class": ""', "unknown class of devices ''"),
        ('"device_class": "cpu"', '"device_class": "../cpu"', "unknown class of devices"),
    ],
)
def test_a_file_that_is_no_table_is_refused(old: str, new: str, said: str) -> None:
    one = (tuned("sum/f32/b1_c1_h64_w4096", 64),)
    whole = tables.encode(Table(device_class="cpu", tuned=one)).decode()
    assert tables.read(whole.encode()).tuned
    with pytest.raises((MalformedMessage, UsageError), match=said):
        tables.read(whole.replace(old, new).encode())


def test_estimates_go_by_the_compute_units_of_the_device() -> None:
    assert rates_of(DEVICE).compute_units == 132  # of its class: this one does not say
    few = replace(DEVICE, compute_units=16)
    assert (busy(few, 2), busy(few, 1.4), busy(replace(few, compute_units=1), 0.4)) == (32, 22, 1)
    posed = problem("sum/f32/b1_c1_h32_w1000000")
    variant = posed.kernel.variants[0]
    groups = [variant.launches(posed, device)[0].groups[0] for device in (few, DEVICE)]
    assert groups[0] < groups[1]


@pytest.mark.parametrize("device_class", CLASSES, ids=lambda each: each.name)
def test_each_class_has_rates(device_class: DeviceClass) -> None:
    found = tables.read_shipped(device_class.name).rates
    assert found
    assert min(vars(found).values()) > 0


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.GROUP)
def test_every_class_has_thresholds(group: type[Attention]) -> None:
    shipped = tables.read_shipped(ANY).thresholds
    assert set(shipped) == {group.GROUP for group in GROUPS}
    assert thresholds(DEVICE, group) == thresholds(replace(DEVICE, vendor_id=0), group)


def test_a_class_with_thresholds_of_its_own_cuts_attention_by_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    posed = problem("flash_attn/f16/s1_h8_g8_q1_n4096_d128_e128")
    device = replace(DEVICE, compute_units=132)
    usual = flash_plan.split(posed, device).part
    values = tables.read_shipped(ANY).thresholds["attention"]
    own = {"attention": {**values, "split_workgroups": 64}}
    file = tmp_path / "nvidia-hopper.json"
    file.write_bytes(tables.encode(Table(device_class="nvidia-hopper", thresholds=own)))
    monkeypatch.setattr(classes, "installed_path", lambda name: tmp_path / f"{name}.json")
    measured.read_group.cache_clear()
    try:
        assert flash_plan.split(posed, device).part > usual
        other = replace(device, name="NVIDIA A100")
        assert flash_plan.split(posed, other).part == usual
    finally:
        measured.read_group.cache_clear()


MEASURED = Peaks(  # the H200 whose thresholds ship
    compute_units=132, fma=63.7e12, matrices=630e12, memory_bytes=4.41e12, launch_seconds=2.06e-6
)
STRANGE = replace(
    DEVICE, name="Strange", vendor_id=0, compute_units=132, features=MATRICES.features
)


@pytest.fixture
def calibrate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[Peaks], None]]:
    """Installs a table of unknown devices that has nothing but their peak rates."""
    monkeypatch.setattr(classes, "installed_path", lambda name: tmp_path / f"{name}.json")

    def install(peaks: Peaks) -> None:
        file = tmp_path / "unknown.json"
        file.write_bytes(tables.encode(Table(device_class="unknown", peaks=peaks)))
        measured.read_group.cache_clear()

    measured.read_group.cache_clear()
    yield install
    measured.read_group.cache_clear()


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.GROUP)
def test_a_device_with_the_rates_of_the_measured_one_has_its_thresholds(
    group: type[Attention], calibrate: Callable[[Peaks], None]
) -> None:
    usual = thresholds(STRANGE, group)
    calibrate(MEASURED)
    assert thresholds(STRANGE, group) == usual
    calibrate(
        replace(MEASURED, fma=66e12, matrices=600e12, memory_bytes=4.2e12, launch_seconds=2.2e-6)
    )  # a noisy day
    assert thresholds(STRANGE, group) == usual
    assert tables.read_shipped(ANY).peaks == MEASURED


def test_thresholds_scale_by_what_they_follow_from(calibrate: Callable[[Peaks], None]) -> None:
    usual, products = thresholds(STRANGE, Attention), thresholds(STRANGE, MatrixProducts)
    calibrate(
        replace(MEASURED, launch_seconds=8.2e-6)
    )  # what saves a launch may cost four times as much
    slow = thresholds(STRANGE, Attention)
    assert slow.short_positions == 4 * usual.short_positions
    assert slow.joined_rows == 4 * usual.joined_rows
    assert thresholds(STRANGE, MatrixProducts).least_part == 4 * products.least_part
    assert slow.split_workgroups == usual.split_workgroups
    calibrate(
        replace(MEASURED, matrices=150e12)
    )  # threads are faster up to four times as many rows
    weak = thresholds(STRANGE, Attention)
    assert weak.matrices_from_rows == 4 * usual.matrices_from_rows
    assert thresholds(STRANGE, MatrixProducts).rate_over_fma == products.rate_over_fma / 4
    assert weak.short_positions == usual.short_positions
    calibrate(MEASURED)  # of another device of the class, half as large
    half = thresholds(replace(STRANGE, compute_units=66), Attention)
    assert half.split_workgroups == usual.split_workgroups // 2
    assert half.short_positions == usual.short_positions
    calibrate(replace(MEASURED, matrices=0.0))  # which leaves what follows from matrices as it is
    assert thresholds(STRANGE, Attention) == usual
    calibrate(replace(MEASURED, launch_seconds=1.0))  # within bounds, whatever was measured
    assert thresholds(STRANGE, Attention).short_positions == 16 * usual.short_positions


def test_a_calibration_changes_the_choices_of_its_class_alone(
    calibrate: Callable[[Peaks], None],
) -> None:
    posed = problem("flash_attn/f16/s1_h32_g8_q1_n4096_d128_e128")
    devices = (STRANGE, replace(STRANGE, name="NVIDIA H200", vendor_id=0x10DE))
    usual = [for_auto(posed, device)[0].name for device in devices]
    assert usual == ["coopmat", "coopmat"]
    calibrate(replace(MEASURED, matrices=60e12))
    assert [for_auto(posed, device)[0].name for device in devices] == ["subgroup", "coopmat"]


ROWS = {"q4_0": "mul_mat/q4_0/m4096_n16_k14336", "f32": "matmul/f16/b2_m64_n128_k64"}
PADDED = "conv2d/f16/n2_c3_h7_w9_o5_r3_s3/padding=1"
CONV = "conv2d/f16/n16_c256_h19_w19_o4096_r4_s4"


@pytest.mark.parametrize(
    ("group", "name", "value", "case", "variant"),
    [
        ("few_vectors", "fragments_vectors", 1, ROWS["q4_0"], ""),
        ("few_vectors", "decoding_vectors", 1, ROWS["q4_0"], ""),
        ("few_vectors", "rows", 1 << 20, ROWS["q4_0"], ""),
        ("few_vectors", "tall_busy", 4.0, ROWS["q4_0"], "coopmat_fragments"),
        ("few_vectors", "resident", 32, ROWS["q4_0"], "coopmat_decoding"),
        ("few_vectors", "least_steps", 200, ROWS["q4_0"], "coopmat_decoding"),
        ("convolutions", "matrices_depth", 1 << 20, CONV, ""),
        ("convolutions", "matrices_results", 1 << 20, CONV, ""),
        ("convolutions", "rate_over_fma", 0.5, "conv2d/f16/n2_c12_h9_w11_o37_r3_s3", "coopmat"),
        ("convolutions", "load_cost", 500.0, PADDED, "coopmat"),
        ("convolutions", "packed_step", 50.0, CONV, "coopmat"),
        ("matrix_products", "in_place_rows", 1, f"{ROWS['f32']}/layout=transposed", "coopmat"),
        ("matrix_products", "in_place_side", 16, f"{ROWS['f32']}/layout=transposed", "coopmat"),
        ("attention", "combined_in_pieces", 1, "flash_attn/f16/s1_h8_g8_q1_n4096_d128_e128", ""),
        ("attention", "whole_positions", 16, "flash_attn/f16/s1_h3_g3_q2_n33_d40_e40", "portable"),
    ],
)  # fmt: skip
def test_a_class_may_have_each_threshold_otherwise(
    group: str, name: str, value: float, case: str, variant: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    posed = problem(case)

    def choose() -> object:
        """The variants by their order, and the launches of the best, or of the one named."""
        order = for_auto(posed, MATRICES)
        first = next(each for each in order if not obstacle(posed, each, MATRICES))
        named = posed.kernel.variant(variant) if variant else first
        assert not obstacle(posed, named, MATRICES)
        return [each.name for each in order], named.launches(posed, MATRICES)

    usual = choose()
    own = {group: {**tables.read_shipped(ANY).thresholds[group], name: value}}
    file = tmp_path / "nvidia-hopper.json"
    file.write_bytes(tables.encode(Table(device_class="nvidia-hopper", thresholds=own)))
    monkeypatch.setattr(classes, "installed_path", lambda name: tmp_path / f"{name}.json")
    measured.read_group.cache_clear()
    try:
        assert choose() != usual
    finally:
        measured.read_group.cache_clear()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"few_rows": 32', '"few_rows": "many"', "few_rows"),
        ('"few_rows": 32', '"more_rows": 32', "few_rows"),
        ('"byte_products"', '"bite_products"', "unknown group of thresholds"),
        ('"launch_seconds": 2.06e-06', '"launch_seconds": 0.0', "launch_seconds of 0.0"),
        ('"fma": 63700000000000.0', '"fma": -1.0', "fma of -1.0"),
        ('"memory_bytes"', '"memory_bits"', "memory_bytes"),
    ],
)
def test_thresholds_that_are_unknown_or_missing_are_refused(old: str, new: str, said: str) -> None:
    text = tables.encode(tables.read_shipped(ANY)).decode()
    assert old in text
    with pytest.raises((MalformedMessage, UsageError), match=said):
        tables.read(text.replace(old, new).encode())


def test_variants_have_candidates_of_their_own_and_less_exact_ones_are_not_swept() -> None:
    posed = problem("matmul/f16:b=f16/b1_m4096_n4096_k4096")
    found = configurations(posed, DEVICE, most=20)
    assert list(dict.fromkeys(each.variant for each in found)) == ["coopmat", "portable"]
    for each in found:
        is_cooperative = str(each.settings["tile"]).startswith("coop")
        assert is_cooperative == (each.variant == "coopmat")


def test_hopper_has_what_was_measured_there() -> None:
    for case, expected in (
        ("matmul/f32/b1_m4096_n4096_k4096", "portable:split=4,tile=128x128_8x8"),
        ("rms_norm/f32/b1_c1_h512_w4096/fused=mul", "portable:lanes=256"),
    ):
        posed = problem(case)
        assert tables.configuration(posed, DEVICE) == expected
        variant = posed.kernel.variant("portable")
        assert parse(expected).settings in posed.candidates(DEVICE, variant)
