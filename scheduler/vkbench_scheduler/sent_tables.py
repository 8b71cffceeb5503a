"""Checks of tuning tables that were measured elsewhere, before everybody takes them.

Nobody can prove that a stranger measured anything. But without the stranger's device these checks
find tables that are damaged, of another class of devices or of other kernels, and times that are
shorter than the rates of the device allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date
from math import isclose, isfinite
from typing import Final

from vkbench.configuration import parse
from vkbench.device import DeviceFacts
from vkbench.errors import VkbenchError
from vkbench_detection.series.impossible import MARGIN, least_seconds
from vkbench_detection.series.roofs import RoofLoad, Roofs, numbers_of
from vkbench_detection.tune.winners import Timed, standing
from vkbench_scheduler.tuning_evidence import hash_code
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Problem
from vkbench_shaders.tuning.classes import UNKNOWN, class_of
from vkbench_shaders.tuning.configurations import for_auto, obstacle
from vkbench_shaders.tuning.evidence import Evidence, Proof, Reach, Rounds
from vkbench_shaders.tuning.tables import Table, Tuned

CPU_MARGIN: Final = 4.0  # of the roof of a CPU, whose rates change with what else it does
LEAST_SECONDS: Final = 1e-8  # no launch takes less, nor does a device's clock tell less
# least and most that any device does of each in a second, with a wide margin
RATES: Final[Mapping[str, tuple[float, float]]] = {
    "read_bytes": (1e8, 1e14),
    "copy_bytes": (1e8, 1e14),
    "fma_f32": (1e7, 1e16),
    "fma_f16": (1e7, 1e17),
    "dot_i8": (1e7, 1e17),
}
MATRIX_RATES: Final = (1e7, 1e18)  # the same of operations on matrices of any formats
LAUNCH_SECONDS: Final = (1e-7, 1e-1)  # least and most that a launch takes anywhere


@dataclass(frozen=True, kw_only=True)
class Review:
    """Faults, for which a table is refused, and cases that are left out of one without faults."""

    faults: tuple[str, ...]
    stale: Mapping[str, str]  # cases that say nothing of the kernels that are here -> why


def review_table(table: Table, digest: str, here: Bundle, today: date) -> Review:
    """Check a table that was exported elsewhere against itself, its device and the kernels here.

    `digest` is what its file has by `digest_of`.
    """
    if not table.evidence or not table.digest:
        word = "it does not say how it was measured: write it by `vkbench tune --export`"
        return Review(faults=(word,), stale={})
    if table.digest != digest:
        word = "it was changed or damaged after its export: its digest is another"
        return Review(faults=(word,), stale={})
    stale = {
        proof.case: why
        for evidence in table.evidence
        for proof in evidence.proofs
        if (why := _explain_staleness(proof, here))
    }
    faults = [*_check_whole(table, today)]
    tuned = {entry.case: entry for entry in table.tuned}
    for evidence in table.evidence:
        fresh = tuple(proof for proof in evidence.proofs if proof.case not in stale)
        faults += _check_device(replace(evidence, proofs=fresh), table)
        for proof in fresh:
            faults += [f"{proof.case}: {word}" for word in _check_case(proof, evidence, tuned)]
    return Review(faults=tuple(faults), stale=stale)


def _check_whole(table: Table, today: date) -> Iterator[str]:
    proven = [proof.case for evidence in table.evidence for proof in evidence.proofs]
    named = [entry.case for entry in table.tuned]
    if sorted(proven) != sorted(set(named)) or len(named) != len(set(named)):
        yield "its cases and those of its evidence differ, or one is there twice"
    if table.thresholds:
        yield (
            "it has thresholds, and nothing in it shows how they were measured: propose them apart"
        )
    if table.peaks is None:
        yield "its device was not calibrated: run `vkbench calibrate` there, and export it again"
    elif not any(_has_peaks(table, each.reach) for each in table.evidence):
        yield "its rates are not those of its calibration"
    if table.peaks and not _is_within(table.peaks.launch_seconds, LAUNCH_SECONDS):
        yield f"no device has launch_seconds of {table.peaks.launch_seconds:.3g}"
    measured = {(each.device.name, each.driver, each.driver_version) for each in table.evidence}
    for source in table.sources:
        if (source.device, source.driver, source.driver_version) not in measured:
            yield f"it names {source.device}, of which it has no evidence"
        try:
            is_later = date.fromisoformat(source.measured_at) > today
        except ValueError:
            yield f"'{source.measured_at}' is no date"
        else:
            if is_later:
                yield f"it was measured on {source.measured_at}, which is yet to come"


def _has_peaks(table: Table, reach: Reach | None) -> bool:
    rates, peaks = table.rates, table.peaks
    return bool(
        reach
        and rates
        and peaks
        and peaks.fma == reach.fma_f32
        and peaks.memory_bytes == rates.memory_bytes == reach.read_bytes
        and peaks.matrices == reach.matrices.get("f16_f32", 0.0)
        and peaks.launch_seconds == rates.launch_seconds
        and peaks.compute_units == rates.compute_units
        and isclose(rates.fma * rates.compute_units, peaks.fma, rel_tol=1e-6)
    )


def _is_within(value: float, bounds: tuple[float, float]) -> bool:
    return bounds[0] <= value <= bounds[1]


def _check_device(evidence: Evidence, table: Table) -> Iterator[str]:
    device, reach = evidence.device, evidence.reach
    own = class_of(device).name
    if own == UNKNOWN.name:
        yield (
            f"{device.name} is of no class, and one table cannot be for all such devices: add its "
            "class to shaders/vkbench_shaders/tuning/classes.py first"
        )
    elif own != table.device_class:
        yield f"{device.name} is of class {own}, not of {table.device_class}"
    if device.host or device.uuid or device.key:
        yield f"{device.name} names its host"
    if reach is None:
        if evidence.proofs:
            yield (
                f"{device.name} was not calibrated: run `vkbench calibrate` there, and export it "
                "again"
            )
        return
    units = table.rates and table.rates.compute_units
    if _has_peaks(table, reach) and device.compute_units not in (0, units):
        yield f"{device.name} has {device.compute_units} compute units, not {units}"
    for name, bounds in RATES.items():
        rate = getattr(reach, name)
        if rate is not None and not _is_within(rate, bounds):
            yield f"no device has {name} of {rate:.3g} a second"
    for formats, rate in reach.matrices.items():
        if not _is_within(rate, MATRIX_RATES):
            yield f"no device has {formats} of {rate:.3g} a second"


def _check_case(proof: Proof, evidence: Evidence, by_case: Mapping[str, Tuned]) -> Iterator[str]:
    try:
        posed = problem(proof.case)
        chosen = {
            rounds.configuration: _set_configuration(posed, rounds)
            for rounds in (proof.estimated, proof.fastest)
        }
    except VkbenchError as error:
        yield str(error)
        return
    if posed.case.name != proof.case:
        yield f"its name here is {posed.case.name}"
    try:
        yield from _check_choice(chosen, evidence.device)
    except (VkbenchError, KeyError, ValueError, ArithmeticError) as error:
        yield f"cannot be judged with its device's limits: {error!r}"
    yield from _check_times(proof, by_case.get(proof.case))
    for rounds in (proof.estimated, proof.fastest):
        yield from _check_roof(posed, rounds, evidence)


def _check_choice(chosen: Mapping[str, Problem], device: DeviceFacts) -> Iterator[str]:
    """Which of the configurations the device cannot run, or `auto` never takes there."""
    for name, configured in chosen.items():
        variant = configured.kernel.variant(parse(name).variant)
        posed = replace(configured, settings={})
        if variant not in for_auto(posed, device):
            yield f"`auto` never takes {name}"
        elif reason := obstacle(configured, variant, device):
            yield f"{name} {reason}"


def _set_configuration(posed: Problem, rounds: Rounds) -> Problem:
    settings = posed.kernel.settings(parse(rounds.configuration).settings)
    posed.kernel.variant(parse(rounds.configuration).variant)
    return replace(posed, settings=settings)


def _check_times(proof: Proof, entry: Tuned | None) -> Iterator[str]:
    """Whether the winner won: every result was right, and each round of it was faster."""
    both = (proof.estimated, proof.fastest)
    for rounds in both:
        times = (*rounds.seconds, rounds.low, rounds.high)
        if not rounds.seconds or not all(isfinite(each) for each in times):
            yield f"{rounds.configuration} has no times"
            return
        if not 0 < rounds.low <= min(rounds.seconds) <= max(rounds.seconds) <= rounds.high:
            yield f"times of {rounds.configuration} are outside of their own interval"
            return
        if why := proof.unfit.get(rounds.configuration):
            yield f"{rounds.configuration} was not judged right: {why}"
            return
    estimated, fastest = (Timed(**asdict(rounds)) for rounds in both)
    if standing([estimated, fastest]).best is not fastest and fastest != estimated:
        yield f"{fastest.configuration} is not faster than {estimated.configuration} beyond noise"
    says = entry and (entry.estimated, entry.configuration, entry.estimated_seconds, entry.seconds)
    names = (estimated.configuration, fastest.configuration)
    if says != (*names, estimated.typical, fastest.typical):
        yield "its entry is not what its evidence says"


def _check_roof(posed: Problem, rounds: Rounds, evidence: Evidence) -> Iterator[str]:
    if not rounds.seconds:
        return
    fastest = min(rounds.seconds)
    is_cpu = evidence.device.type == "cpu"
    least = LEAST_SECONDS
    if evidence.reach:
        roofs = Roofs(**asdict(evidence.reach), llc_bytes=evidence.device.llc_bytes)
        margin = CPU_MARGIN if is_cpu else MARGIN
        least = max(least, least_seconds(_describe_load(posed, rounds), roofs) / margin)
    if fastest < least:
        yield (
            f"{rounds.configuration} took {fastest:.3g} s, and no device of these rates can be "
            f"done in less than {least:.3g} s"
        )


def _describe_load(posed: Problem, rounds: Rounds) -> RoofLoad:
    variant = posed.kernel.variant(parse(rounds.configuration).variant)
    types = ",".join(f"{name}={value}" for name, value in posed.case.types.items())
    return RoofLoad(
        bytes_moved=posed.kernel.work.bytes_moved(posed),
        flops=posed.kernel.work.flops(posed),
        numbers=numbers_of(posed.case.format, types),
        path=variant.arithmetic,
        variant=variant.name,
        kernel=posed.kernel.name,
    )


def _explain_staleness(proof: Proof, here: Bundle) -> str:
    """Why a case says nothing of the kernels that are here, or ""."""
    if proof.bundle == here.sha:
        return ""
    if not proof.code:
        return "it was timed with older kernels than those of the host that exported it"
    both = (proof.estimated.configuration, proof.fastest.configuration)
    if proof.code != hash_code(proof.case, both, here):
        return "its kernel has changed since"
    return ""
