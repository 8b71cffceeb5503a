"""The state of each target: what was measured for it, or the command that measures it.

Only a result can meet or miss a target: a timing, check or comparison of the chosen devices, bytes
counted now, or a comparison that was recorded on a GPU. Without one, a target is not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from statistics import geometric_mean
from typing import TYPE_CHECKING

import numpy as np

from vkbench.case import parse
from vkbench.job import JobState, Mode
from vkbench_local.peers import cpu
from vkbench_shaders.catalogue import problem
from vkbench_shaders.formats import QUANTISED, format_named
from vkbench_shaders.rocm_grid import GRID
from vkbench_shaders.tolerance import LIMITS

if TYPE_CHECKING:
    from vkbench.device import DeviceFacts
    from vkbench_db.ask.accuracies import AccuracyRow
    from vkbench_db.ask.peers import PeerPair
    from vkbench_db.ask.queries import ResultRow
    from vkbench_db.upkeep.tuning import TunedRow

CHECKS = 32 + 20  # number of tests that two of the plans ask for


class TargetState(StrEnum):
    """Whether a target is met."""

    MET = "met"
    MISSED = "missed"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, kw_only=True)
class TargetResult:
    """The state of a target, with what was measured."""

    standing: TargetState
    measured: str = ""
    value: float | None = None  # the same for programs
    how: str = ""  # from which results; or the command that would measure it


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What was measured: the newest result of each piece of work of the chosen devices."""

    results: Sequence[ResultRow]
    devices: Mapping[str, DeviceFacts] = field(default_factory=dict)  # by key
    tuned: Sequence[TunedRow] = ()  # the fastest configurations that sweeps found
    host: str = ""  # that this process runs on, where it times numpy
    of_fleet: bool = False  # whether the devices may be of other hosts
    losses: Sequence[AccuracyRow] = ()  # the newest of each, of models
    pairs: Sequence[PeerPair] = ()  # the latest comparisons with peers on these devices

    @property
    def gpus(self) -> set[str]:
        """Keys of the devices that are no CPU drivers."""
        return {key for key, facts in self.devices.items() if facts.type != "cpu"}

    @property
    def submits(self) -> str:
        """The options by which a command measures on a fleet."""
        return " --submit --device '*'" if self.of_fleet else ""

    def command(self, words: str) -> str:
        """The command that does something on these devices."""
        return f"`vkbench {'submit' if self.of_fleet else 'run'}{words}`"

    def timing(self, case: str) -> str:
        """The command that times a case on these devices."""
        return self.command(f" --case {case} --mode performance")


Find = Callable[[Evidence], TargetResult]


def answered(find: Find, evidence: Evidence) -> TargetResult:
    """The result of a target, also on a host that has no packages to work it out."""
    try:
        return find(evidence)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "gguf":
            raise
        return not_measured(
            "the Python package gguf is missing here: `pip install 'vkbench[worker]'`"
        )


def not_measured(how: str) -> TargetResult:
    """The result of a target without a measurement: how to make one."""
    return TargetResult(standing=TargetState.NOT_MEASURED, how=how)


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
    """How many times as fast as numpy these cases are on a GPU, by their geometric mean."""

    def find(evidence: Evidence) -> TargetResult:
        ours = _fastest(_of_gpus(evidence), cases)
        if not ours:
            return not_measured(f"run {evidence.timing(cases[0])} on a host with a GPU")
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
            commands = " and ".join(map(evidence.timing, missing))
            return not_measured(f"run {commands} on a host with a GPU")
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


def checks(evidence: Evidence) -> TargetResult:
    """Whether as many checks as the plans count passed, and none found anything wrong."""
    checked = [row for row in evidence.results if row.mode == Mode.CORRECTNESS]
    passed = sum(row.state == JobState.PASSED for row in checked)
    bad = sum(row.state in (JobState.WRONG, JobState.FAILED) for row in checked)
    if passed < CHECKS and not bad:
        command = evidence.command("")
        return not_measured(f"{passed} of {CHECKS} checks passed so far: run {command}")
    return TargetResult(
        standing=met(not bad),
        measured=f"{passed} of {len(checked)} passed, {bad} wrong or failed",
        value=bad,
        how="vkbench's own checks; the tests of the plans were never written",
    )


def all_timed(cases: Sequence[str]) -> Find:
    """Whether every one of these cases was timed."""

    def find(evidence: Evidence) -> TargetResult:
        timed = {row.case_name for row in evidence.results if row.metric == "hot" and row.seconds}
        missing = [case for case in cases if case not in timed]
        if missing:
            had = f"{len(cases) - len(missing)} of {len(cases)} timed so far"
            return not_measured(f"{had}: run {', '.join(map(evidence.timing, missing))}")
        return TargetResult(
            standing=TargetState.MET,
            measured=f"{len(cases)} of {len(cases)} sizes timed",
            value=len(cases),
            how=", ".join(cases),
        )

    return find


def shaders_of_blocks(least: int) -> Find:
    """How many shaders about quantised blocks passed: a kernel with one format is one."""

    def find(evidence: Evidence) -> TargetResult:

        rows = [row for row in evidence.results if row.format in QUANTISED]
        return _counted(
            evidence,
            {(row.kernel, row.format) for row in rows if row.state == JobState.PASSED},
            {(row.kernel, row.format) for row in rows if row.state == JobState.WRONG},
            least=least,
            what="shaders (a kernel and a quantised format each)",
        )

    return find


def rocm_kernels(least: int) -> Find:
    """How many names of the ROCm grid have a kernel here whose results passed."""

    def find(evidence: Evidence) -> TargetResult:

        named = {_identity(kernel.case.name): kernel.name for kernel in GRID}
        ours = {kernel.kernel for kernel in GRID}
        rows = [row for row in evidence.results if row.kernel in ours]
        passed, wrong = (
            {
                name
                for row in rows
                if row.state == state and (name := named.get(_identity(row.case_name)))
            }
            for state in (JobState.PASSED, JobState.WRONG)
        )
        return _counted(evidence, passed, wrong, least=least, what="names of the ROCm grid")

    return find


def _counted(
    evidence: Evidence,
    passed: set[str] | set[tuple[str, str]],
    wrong: set[str] | set[tuple[str, str]],
    *,
    least: int,
    what: str,
) -> TargetResult:
    if len(passed) < least and not wrong:
        had = f"{len(passed)} of the {least} {what} passed so far"
        return not_measured(f"{had}: run {evidence.command(' --suite targets')}")
    return TargetResult(
        standing=met(not wrong),
        measured=f"{len(passed)} passed, {len(wrong)} wrong",
        value=len(passed),
        how=f"{what}, by the newest results",
    )


def _identity(name: str) -> tuple[object, ...]:
    """What a name of the ROCm grid says of a case: kernel, formats, and columns of a vector."""
    case = parse(name)
    columns = case.shape.get("n") if case.kernel == "mul_mat_vec" else None
    return case.kernel, case.format, tuple(sorted(case.types.items())), columns


def _rms_of_reference(case: str) -> float:

    posed = problem(case)
    reference = posed.kernel.reference(posed, posed.kernel.inputs(posed), None)
    return float(np.sqrt(np.mean(np.square(next(iter(reference.values())), dtype=np.float64))))


def _of_gpus(evidence: Evidence) -> list[ResultRow]:
    """The results of GPUs: a CPU driver beside numpy would be a CPU beside itself."""
    return [row for row in evidence.results if row.device in evidence.gpus]


def _fastest(results: Sequence[ResultRow], cases: Sequence[str]) -> list[ResultRow]:
    """Hot timings of one device, that which is fastest at the first of the cases that ran."""
    timed = [row for row in results if row.metric == "hot" and row.seconds]
    timed = sorted(timed, key=lambda row: row.seconds or 0)
    by_case = {case: [row for row in timed if row.case_name == case] for case in cases}
    device = next((rows[0].device for rows in by_case.values() if rows), "")
    firsts = (next((r for r in rows if r.device == device), None) for rows in by_case.values())
    return [row for row in firsts if row]


def _elsewhere(row: ResultRow, evidence: Evidence) -> str:
    """Says so if numpy was timed on another host than the device's."""
    return "" if row.host == evidence.host else f"; numpy on {evidence.host}, not {row.host}"


def _of_numpy(row: ResultRow) -> float:
    """How many times as fast as numpy a timing is."""
    return _numpy_seconds(row.case_name) / (row.seconds or np.inf)


@cache
def _numpy_seconds(case: str) -> float:
    return cpu.measure(case).seconds


def met(is_met: bool) -> TargetState:
    """The state of a target that was measured."""
    return TargetState.MET if is_met else TargetState.MISSED
