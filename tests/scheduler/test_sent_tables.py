"""A tuning table from elsewhere is refused where it cannot be true, with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from planted_devices import MATRICES
from vkbench.device import DeviceFacts
from vkbench_scheduler.sent_tables import Review, review_table
from vkbench_scheduler.tuning_evidence import hash_code
from vkbench_shaders.bundle import packaged
from vkbench_shaders.tuning.estimates import Peaks
from vkbench_shaders.tuning.evidence import Evidence, Proof, Reach, Rounds
from vkbench_shaders.tuning.merging import merge_tables
from vkbench_shaders.tuning.rates import rates_of
from vkbench_shaders.tuning.tables import Source, Table, Tuned, digest_of, encode, read

CASE = "sum/f32/b1_c1_h8192_w8192"
FAST, SLOW = "portable:threads=128", "portable:threads=256"
TODAY = date(2026, 11, 28)
DEVICE = replace(MATRICES, key="", host="", uuid="", llc_bytes=50 << 20, compute_units=132)
REACH = Reach(
    read_bytes=4e12, copy_bytes=4e12, fma_f32=6e13, fma_f16=1e14, dot_i8=2e14,
    matrices={"f16_f32": 8e14},
)  # fmt: skip
RATES = replace(
    rates_of(DEVICE), compute_units=132, fma=6e13 / 132, memory_bytes=4e12, launch_seconds=2e-6
)
PEAKS = Peaks(compute_units=132, fma=6e13, matrices=8e14, memory_bytes=4e12, launch_seconds=2e-6)


def rounds(name: str, *seconds: float) -> Rounds:
    return Rounds(
        configuration=name, seconds=seconds, low=min(seconds) * 0.99, high=max(seconds) * 1.01
    )


def proof(**fields: Any) -> Proof:
    usual: dict[str, Any] = {
        "case": CASE,
        "bundle": packaged().sha,
        "code": hash_code(CASE, (SLOW, FAST), packaged()),
        "estimated": rounds(SLOW, 8e-5, 8.1e-5),
        "fastest": rounds(FAST, 7.2e-5, 7.3e-5),
    }
    return Proof(**usual | fields)


def sent(
    proven: Proof | None = None, *, device: DeviceFacts = DEVICE, reach: Reach | None = REACH,
    **fields: Any,
) -> Table:  # fmt: skip
    """A table as `vkbench tune --export` writes it, of one case."""
    proven = proven or proof()
    source = Source(
        device=device.name, driver="NVIDIA", driver_version="580", vkbench="0.1.0",
        measured_at="2026-11-27",
    )  # fmt: skip
    entry = Tuned(
        case=proven.case,
        configuration=proven.fastest.configuration,
        seconds=sum(proven.fastest.seconds) / 2,
        estimated=proven.estimated.configuration,
        estimated_seconds=sum(proven.estimated.seconds) / 2,
    )
    evidence = Evidence(
        device=device, driver="NVIDIA", driver_version="580", reach=reach, proofs=(proven,)
    )
    usual: dict[str, Any] = {
        "device_class": "nvidia-hopper",
        "sources": (source,),
        "tuned": (entry,),
        "rates": RATES,
        "peaks": PEAKS,
        "evidence": (evidence,),
    }
    table = Table(**usual | fields)
    return replace(table, digest=digest_of(encode(table)))


def check(table: Table) -> Review:
    return review_table(table, digest_of(encode(table)), packaged(), TODAY)


def test_a_table_that_may_be_true_is_taken_after_its_way_through_a_file() -> None:
    table = read(encode(sent()))
    assert check(table) == Review(faults=(), stale={})
    merged = merge_tables(Table(device_class="nvidia-hopper"), table)
    assert (merged.new, merged.changed) == ((CASE,), ())
    assert (merged.table.tuned, merged.table.peaks) == (table.tuned, table.peaks)
    assert b"evidence" not in encode(merged.table)


def test_an_estimated_configuration_may_be_the_fastest() -> None:
    alike = rounds(SLOW, 8e-5, 8.1e-5)
    assert check(sent(proof(estimated=alike, fastest=alike))).faults == ()


def of_case(**fields: Any) -> Callable[[], Table]:
    return lambda: sent(proof(**fields))


def of_device(**fields: Any) -> Callable[[], Table]:
    return lambda: sent(device=replace(DEVICE, **fields))


def of_reach(**fields: Any) -> Callable[[], Table]:
    return lambda: sent(reach=replace(REACH, **fields))


def of_rates(**fields: Any) -> Callable[[], Table]:
    return lambda: sent(rates=replace(RATES, **fields))


def of_peaks(**fields: Any) -> Callable[[], Table]:
    return lambda: sent(peaks=replace(PEAKS, **fields))


def of_launches(seconds: float) -> Callable[[], Table]:
    return lambda: sent(
        rates=replace(RATES, launch_seconds=seconds), peaks=replace(PEAKS, launch_seconds=seconds)
    )


def of_units(units: int) -> Callable[[], Table]:
    rates = replace(RATES, compute_units=units, fma=6e13 / units)
    return lambda: sent(rates=rates, peaks=replace(PEAKS, compute_units=units))


def without_limits() -> Table:
    case, name = "matmul/f16/b1_m1024_n1024_k1024", "coopmat"
    proven = proof(case=case, estimated=rounds(name, 1e-3, 1e-3), fastest=rounds(name, 1e-3))
    return sent(proven, device=replace(DEVICE, limits={}))


def with_a_second_device(proven: Proof | None = None) -> Table:
    """One that was tuned and never calibrated, beside another that was."""
    first = sent(proven).evidence[0]
    calibrated = replace(first, proofs=())
    second = replace(first, device=replace(DEVICE, name="NVIDIA H20"), reach=None)
    return sent(proven, evidence=(calibrated, second))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: replace(sent(), digest="", evidence=()), "does not say how it was measured"),
        (lambda: replace(sent(), tuned=()), "changed or damaged after its export"),
        (lambda: sent(tuned=()), "its cases and those of its evidence differ"),
        (lambda: sent(thresholds={"attention": {}}), "propose them apart"),
        (lambda: sent(peaks=None), "run `vkbench calibrate` there"),
        (lambda: sent(rates=rates_of(DEVICE)), "its rates are not those of its calibration"),
        (lambda: sent(device_class="cpu"), "is of class nvidia-hopper, not of cpu"),
        (of_device(name="NVIDIA GeForce RTX 9090"), "of no class, and one table cannot be for all"),
        (of_device(host="secret"), "names its host"),
        (of_reach(copy_bytes=1e17), "no device has copy_bytes of 1e+17 a second"),
        (of_reach(matrices={"f16_f32": 8e14, "i8_i32": 1e19}), "has i8_i32 of 1e+19 a second"),
        (of_reach(matrices={}), "its rates are not those of its calibration"),
        (of_peaks(matrices=1e14), "its rates are not those of its calibration"),
        (of_peaks(compute_units=64), "its rates are not those of its calibration"),
        (of_peaks(launch_seconds=1e-6), "its rates are not those of its calibration"),
        (of_rates(compute_units=64, fma=6e13 / 64), "are not those of its calibration"),
        (of_launches(1e-8), "no device has launch_seconds of 1e-08"),
        (of_launches(0.2), "no device has launch_seconds of 0.2"),
        (of_units(1), "NVIDIA H200 has 132 compute units, not 1"),
        (with_a_second_device, "NVIDIA H20 was not calibrated: run `vkbench calibrate` there"),
        (without_limits, "cannot be judged with its device's limits: "),
        (of_case(case="sun/f32/n4"), "unknown kernel"),
        (of_case(case="SUM/f32/b1_c1_h8192_w8192"), f"its name here is {CASE}"),
        (of_case(fastest=rounds("portable:threads=100", 7e-5, 7e-5)), "unknown value of sum's"),
        (of_case(fastest=rounds("fragments", 7e-5, 7e-5)), "unknown variant of sum"),
        (of_case(fastest=rounds(FAST, 7.2e-5, 7.95e-5)), "is not faster than"),
        (of_case(fastest=Rounds(configuration=FAST, seconds=(), low=0.0, high=0.0)), "no times"),
        (of_case(fastest=replace(rounds(FAST, 7e-5, 7e-5), high=6e-5)), "outside of their own"),
        (of_case(unfit={FAST: "wrong: nmse 0.3"}), "was not judged right: wrong: nmse 0.3"),
        (of_case(fastest=rounds(FAST, 5e-5, 5e-5)), "can be done in less than 6.39e-05 s"),
        (lambda: sent(tuned=(replace(sent().tuned[0], seconds=1e-6),)), "not what its evidence"),
        (lambda: sent(sources=(replace(sent().sources[0], measured_at="2027-01-01"),)), "to come"),
        (lambda: sent(sources=(replace(sent().sources[0], device="H20"),)), "names H20, of which"),
        (lambda: sent(sources=(replace(sent().sources[0], measured_at="x"),)), "'x' is no date"),
        (
            lambda: sent(device=replace(DEVICE, limits={**DEVICE.limits,
                                                        "max_workgroup_invocations": 64})),
            "cannot have threads=128 there",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_true_is_refused(made: Callable[[], Table], said: str) -> None:
    faults = check(made()).faults
    assert any(said in fault for fault in faults), faults


def test_what_auto_never_takes_is_refused() -> None:
    case, name = "mul_mat_vec/q4_0/m4096_n8_k14336", "via_q8_1"
    table = sent(proof(case=case, estimated=rounds(name, 1e-3, 1e-3), fastest=rounds(name, 1e-3)))
    assert any(f"`auto` never takes {name}" in fault for fault in check(table).faults)


def test_a_cpu_may_be_faster_than_its_calibration_and_not_by_far() -> None:
    """Its calibration may have been made beside other work."""
    cpu = replace(DEVICE, name="llvmpipe", type="cpu", llc_bytes=1 << 20)

    def faults(seconds: float) -> tuple[str, ...]:
        fast = proof(fastest=rounds(FAST, seconds, seconds))
        return check(sent(fast, device=cpu, device_class="cpu")).faults

    assert faults(3e-5) == ()
    assert "can be done in less than" in faults(1e-5)[0]


def test_cases_of_other_kernels_are_left_out() -> None:
    assert check(sent(proof(bundle="of a fork"))).stale == {}  # this kernel is the same there
    assert check(sent(proof(bundle="old", code="other"))).stale == {
        CASE: "its kernel has changed since"
    }
    assert "older kernels" in check(sent(proof(bundle="old", code=""))).stale[CASE]


def test_what_is_wrong_with_a_case_that_is_left_out_does_not_count() -> None:
    """Its settings may have other names now, and its device's rates may be others."""
    gone = proof(fastest=rounds("portable:gone=1", 5e-5, 5e-5), bundle="old", code="other")
    assert check(sent(gone)) == Review(faults=(), stale={CASE: "its kernel has changed since"})
    assert check(with_a_second_device(gone)).faults == ()


def test_a_digest_is_of_what_the_file_says() -> None:
    """So that a later version, whose tables have more fields, takes older files as well."""
    written = json.loads(encode(sent()))
    del written["thresholds"]
    older = {name: value for name, value in written.items() if name != "digest"}
    older["digest"] = digest_of(json.dumps(older).encode())
    data = json.dumps(older).encode()
    assert digest_of(data) == read(data).digest
    assert review_table(read(data), digest_of(data), packaged(), TODAY).faults == ()


def test_a_merge_keeps_what_was_not_sent() -> None:
    kept = Tuned(
        case="sum/f32/b1_c1_h4_w4", configuration=FAST, seconds=1.0, estimated=SLOW,
        estimated_seconds=2.0,
    )  # fmt: skip
    changed = replace(sent().tuned[0], configuration="portable:threads=64")
    own = Table(
        device_class="nvidia-hopper", tuned=(kept, changed), thresholds={"attention": {"x": 1}}
    )
    merged = merge_tables(own, sent())
    assert merged.table.tuned == (kept, *sent().tuned)
    assert merged.table.thresholds == own.thresholds
    assert (merged.new, merged.changed) == ((), (CASE,))


def test_a_merge_keeps_what_no_calibration_measures() -> None:
    own = Table(device_class="nvidia-hopper", rates=replace(RATES, fma=1.0))
    strange = replace(RATES, step_seconds=1e-12, workgroup_seconds=5.0)
    assert merge_tables(own, sent(rates=strange)).table.rates == RATES
