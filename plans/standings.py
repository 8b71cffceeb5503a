"""Targets about results of kernels: their bytes, their errors, their times beside numpy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from statistics import geometric_mean

import numpy as np

from plans import numpy_times
from plans.evidence import Evidence, Find, TargetResult, TargetState, met, not_measured
from plans.rocm_grid import GRID
from vkbench.case import parse
from vkbench.job import JobState
from vkbench_db.ask.results import ResultRow
from vkbench_shaders.catalogue import problem
from vkbench_shaders.formats import format_named
from vkbench_shaders.tolerance import LIMITS


def layout(evidence: Evidence) -> TargetResult:
    """Whether kernels that write Q4_0 blocks wrote gguf's bytes."""
    rows = [row for row in evidence.results if (row.kernel, row.format) == ("quantize", "q4_0")]
    checked = [row for row in rows if row.state in (JobState.PASSED, JobState.WRONG)]
    if not checked:
        command = evidence.command(" --kernel quantize --format q4_0 --mode correctness")
        return not_measured(f"run {command}")
    passed = sum(row.state == JobState.PASSED for row in checked)
    fmt = format_named("q4_0")
    elements, size = fmt.elements, fmt.bytes
    return TargetResult(
        standing=met((elements, size) == (32, 18) and passed == len(checked)),
        measured=f"{passed} of {len(checked)} results are gguf's bytes",
        value=passed,
        how=f"quantize to q4_0; {size} bytes a block of {elements}",
    )


def times_the_cpu(cases: Sequence[str], least: float) -> Find:
    """How many times as fast as numpy all of these cases are on a GPU, by their geometric mean."""

    def find(evidence: Evidence) -> TargetResult:
        ours = _fastest(_of_gpus(evidence), cases)
        timed = {row.case_name for row in ours}
        if missing := [case for case in cases if case not in timed]:
            had = f"{len(ours)} of {len(cases)} timed on {ours[0].device_name}: " if ours else ""
            return not_measured(f"{had}run {evidence.timing(*missing)} on a host with a GPU")
        ratios = [_of_numpy(row) for row in ours]
        mean = geometric_mean(ratios)
        said = ", ".join(
            f"{row.case_name} {each:.3g}" for row, each in zip(ours, ratios, strict=True)
        )
        return TargetResult(
            standing=met(mean >= least),
            measured=f"{mean:.3g} times numpy",
            value=mean,
            how=f"{ours[0].device_name}: {said}{_elsewhere(ours[0], evidence)}",
        )

    return find


def faster_than_cpu(large: str, small: str) -> Find:
    """Whether a GPU is faster than numpy on a large case; on a small one it only says."""

    def find(evidence: Evidence) -> TargetResult:
        ours = {row.case_name: row for row in _fastest(_of_gpus(evidence), (large, small))}
        if missing := [case for case in (large, small) if case not in ours]:
            return not_measured(f"run {evidence.timing(*missing)} on a host with a GPU")
        ratios = {case: _of_numpy(ours[case]) for case in (large, small)}
        told = "faster" if ratios[small] >= 1 else "slower"
        return TargetResult(
            standing=met(ratios[large] > 1),
            measured=f"{ratios[large]:.3g} times numpy; {told} on small: {ratios[small]:.3g}",
            value=ratios[large],
            how=f"{ours[large].device_name}: {large}; small: {small}"
            f"{_elsewhere(ours[large], evidence)}",
        )

    return find


def parity(case: str) -> Find:
    """The largest error in the RMS of the reference, as every f32 product is judged."""

    def find(evidence: Evidence) -> TargetResult:
        judged = [row for row in evidence.results if row.case_name == case]
        judged = [row for row in judged if row.max_abs is not None]
        if not judged:
            command = evidence.command(f" --case {case} --mode correctness")
            return not_measured(f"run {command}")
        worst = max(judged, key=lambda row: row.max_abs or 0)
        off = (worst.max_abs or 0) / _rms_of_reference(case)
        passed = all(row.state == JobState.PASSED for row in judged)
        return TargetResult(
            standing=met(passed and off <= LIMITS["f32_true"].max_abs),
            measured=f"{off:.2g} of the reference's RMS at most",
            value=off,
            how=f"{worst.device_name}, {worst.variant_run}, against float64",
        )

    return find


def all_timed(cases: Sequence[str]) -> Find:
    """Whether every one of these cases was timed."""

    def find(evidence: Evidence) -> TargetResult:
        timed = {
            row.case_name for row in evidence.results if row.timing_name == "hot" and row.seconds
        }
        missing = [case for case in cases if case not in timed]
        if missing:
            had = f"{len(cases) - len(missing)} of {len(cases)} timed so far"
            return not_measured(f"{had}: run {evidence.timing(*missing)}")
        return TargetResult(
            standing=TargetState.MET,
            measured=f"{len(cases)} of {len(cases)} sizes timed",
            value=len(cases),
            how=", ".join(cases),
        )

    return find


def rocm_kernels(least: int) -> Find:
    """How many names of the ROCm grid have a kernel here whose results passed."""
    named = {identity(kernel.case.name): kernel.name for kernel in GRID}
    kernels = {kernel.kernel for kernel in GRID}

    def find(evidence: Evidence) -> TargetResult:
        rows = [row for row in evidence.results if row.kernel in kernels]
        passed, wrong = (
            {
                name
                for row in rows
                if row.state == state and (name := named.get(identity(row.case_name)))
            }
            for state in (JobState.PASSED, JobState.WRONG)
        )
        if len(passed) < least and not wrong:
            chosen = "".join(f" --kernel {kernel}" for kernel in sorted(kernels))
            command = evidence.command(f"{chosen} --mode correctness")
            return not_measured(f"{len(passed)} of the {least} passed so far: run {command}")
        return TargetResult(
            standing=met(not wrong),
            measured=f"{len(passed)} of the grid's {len(GRID)} names passed, {len(wrong)} wrong",
            value=len(passed),
            how="by the newest results of their kernels, formats and columns",
        )

    return find


def identity(name: str) -> tuple[object, ...]:
    """What a name of the ROCm grid says of a case: kernel, formats, and columns of a vector."""
    case = parse(name)
    columns = case.shape.get("n") if case.kernel == "mul_mat_vec" else None
    return case.kernel, case.format, tuple(sorted(case.types.items())), columns


def _rms_of_reference(case: str) -> float:
    posed = problem(case)
    reference = posed.kernel.check.reference(posed, posed.kernel.inputs(posed), None)
    return float(np.sqrt(np.mean(np.square(next(iter(reference.values())), dtype=np.float64))))


def _of_gpus(evidence: Evidence) -> list[ResultRow]:
    """The results of GPUs: a CPU driver beside numpy would be a CPU beside itself."""
    return [row for row in evidence.results if row.device in evidence.gpus]


def _fastest(results: Sequence[ResultRow], cases: Sequence[str]) -> list[ResultRow]:
    """Hot timings of the device that timed most of these cases, the fastest if several did."""
    by_device: dict[str, dict[str, ResultRow]] = {}
    for row in sorted(results, key=lambda row: row.seconds or 0):
        if row.timing_name == "hot" and row.seconds and row.case_name in cases:
            by_device.setdefault(row.device, {}).setdefault(row.case_name, row)
    in_order = [[rows[case] for case in cases if case in rows] for rows in by_device.values()]
    return min(in_order, key=lambda rows: (-len(rows), rows[0].seconds or 0), default=[])


def _elsewhere(row: ResultRow, evidence: Evidence) -> str:
    """Says so if numpy was timed on another host than the device's."""
    return "" if row.host == evidence.host else f"; numpy on {evidence.host}, not {row.host}"


def _of_numpy(row: ResultRow) -> float:
    """How many times as fast as numpy a timing is."""
    return _numpy_seconds(row.case_name) / (row.seconds or np.inf)


@cache
def _numpy_seconds(case: str) -> float:
    return numpy_times.measure(case).seconds
