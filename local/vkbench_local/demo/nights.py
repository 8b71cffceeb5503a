"""The nights of the demonstration's lab, as the lines that an import stores."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from uuid import UUID

import numpy as np

from vkbench.calibration import CANARY_AT, CANARY_SECONDS, TICK
from vkbench.device import DeviceFacts
from vkbench.job import JobState, Mode, Outcome
from vkbench.result import Timing, Verdict
from vkbench_db.rows import record_of
from vkbench_db.transfer.lines import AttemptLine, JobLine, RunLine
from vkbench_local.demo import story
from vkbench_local.demo.lab import MACHINES, Machine
from vkbench_local.demo.recording import RecordedCase, Recording, timing

NIGHT = 86_400.0
BEGINS = 3_600.0  # seconds after midnight
ENDED = 8_000.0  # when all of a night is measured and judged
EACH = 0.9  # seconds that a job takes
WIDE_BEFORE_END = 4  # nights: the second that times all cases, and those after it
CANARY_EACH = 12  # jobs
CANARY = 0.000275  # seconds, of the recorded device
CANARY_NOISE = 0.002
WRONG = "NMSE 0.41 is over 1e-10"
TAGS: Mapping[str, object] = {"demonstration": True}


@dataclass(frozen=True, kw_only=True)
class Lab:
    """What is recorded, what is timed each night, and when the last night was."""

    recording: Recording
    nightly: Sequence[str]  # cases
    nights: int
    until: float  # the midnight after the last night
    seed: int = 1
    bundles: Sequence[str] = ()  # SHA-256 of each build
    machines: Sequence[Machine] = MACHINES

    def midnight(self, night: int) -> float:
        """When a night began."""
        return self.until - (self.nights - night) * NIGHT

    def facts(self, machine: Machine) -> DeviceFacts:
        """What a device says of itself."""
        return self._facts[machine.host, machine.index]

    @cached_property
    def _facts(self) -> Mapping[tuple[str, int], DeviceFacts]:
        return {
            (machine.host, machine.index): machine.facts(self.recording.device)
            for machine in self.machines
        }

    def environment(self, machine: Machine, night: int) -> str:
        """The hash of a device's software in a night."""
        key = machine.host, machine.index, machine.version(night)
        if key not in self._hashes:
            self._hashes[key] = machine.environment(self.recording.environment, night).hash
        return self._hashes[key]

    @cached_property
    def _hashes(self) -> dict[tuple[str, int, str], str]:
        return {}

    def is_wide(self, night: int) -> bool:
        """Whether all cases are timed: in the first night, and in one before the last two.

        Pages hold the last night against the one before: both time the same cases.
        """
        return night in (0, self.nights - WIDE_BEFORE_END)

    @cached_property
    def by_name(self) -> Mapping[str, Sequence[RecordedCase]]:
        """The recorded cases by name, each by one or several code paths."""
        by_name: dict[str, list[RecordedCase]] = {}
        for case in self.recording.cases:
            by_name.setdefault(case.case, []).append(case)
        return by_name

    def level(
        self,
        case: RecordedCase,
        metric: int,
        machine: Machine,
        night: int,
        build: int | None = None,
    ) -> float:
        """Seconds that a case takes on a device in a night, without noise; 0 is wrong.

        With `build`, by the kernels of that bundle instead of the night's own.
        """
        own = deviation(f"{case.case} {machine.host} {machine.index}")
        seconds = machine.seconds(case, case.timings[metric].seconds, own)
        return seconds * story.factor(case.case, machine, night, build)


@cache
def deviation(text: str) -> float:
    """A number from a standard normal distribution, always the same for a text."""
    return float(np.random.default_rng(zlib.crc32(text.encode())).normal())


@dataclass(frozen=True, kw_only=True)
class Work:
    """A job of a night: a case on a device, when it ends, and what happened."""

    machine: Machine
    case: RecordedCase
    ended: float
    canary: float
    canary_at: float


def run_line(lab: Lab, night: int, what: str, date: str, began: float) -> RunLine:
    """A run of a night, which is compared with the one before that timed the same."""
    label = f"{what} {date}"
    return RunLine(
        uuid=str(UUID(bytes=hashlib.md5(f"{lab.seed} {night} {label}".encode()).digest())),
        created_at=began,
        user="nightly",
        label=label,
        tags=TAGS,
        selection={"suite": what},
        mode=Mode.PERFORMANCE,
        priority=0,
        cancelled_at=None,
    )


def job_lines(
    lab: Lab, night: int, cases: Sequence[Sequence[RecordedCase]], began: float, salt: int
) -> Iterator[JobLine]:
    """The jobs of a run: each case once on each device; devices work side by side.

    A case comes with its code paths, of which a device takes the best that it has.
    """
    rng = np.random.default_rng([lab.seed, night, salt])
    position = 0
    for machine in lab.machines:
        canary, canary_at = 0.0, 0.0
        for number, paths in enumerate(cases):
            if number % CANARY_EACH == 0:
                canary_at = began + number * EACH
                canary = _canary(machine, night, rng)
            work = Work(
                machine=machine,
                case=machine.runs(paths) or paths[0],
                ended=began + (number + 1) * EACH,
                canary=canary,
                canary_at=canary_at,
            )
            yield _job(lab, night, position, work, rng)
            position += 1


def _canary(machine: Machine, night: int, rng: np.random.Generator) -> float:
    busy = story.BUSY.factor if story.BUSY.holds("", machine, night) else 1.0
    return float(CANARY * machine.computing * busy * (1 + rng.normal(0, CANARY_NOISE)))


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a job ended, and what it found."""

    outcome: Outcome
    reason: str = ""
    verdict: Verdict | None = None
    timings: tuple[Timing, ...] = ()


def _job(lab: Lab, night: int, position: int, work: Work, rng: np.random.Generator) -> JobLine:
    if work.machine.runs([work.case]) is None:
        reason = f"the device lacks what code path {work.case.variant} needs"
        return _line(lab, night, position, work, Ending(outcome=Outcome.SKIPPED, reason=reason))
    noise = np.exp(rng.normal(0, work.machine.noise, len(work.case.timings)))
    levels = [
        lab.level(work.case, metric, work.machine, night)
        for metric in range(len(work.case.timings))
    ]
    if not all(levels):
        verdict = verdict_of(work.case, is_right=False)
        ending = Ending(outcome=Outcome.WRONG, reason=WRONG, verdict=verdict)
        return _line(lab, night, position, work, ending)
    timings = tuple(
        timing(recorded, level * float(factor), rng)
        for recorded, level, factor in zip(work.case.timings, levels, noise, strict=True)
    )
    verdict = verdict_of(work.case, is_right=True)
    ending = Ending(outcome=Outcome.PASSED, verdict=verdict, timings=timings)
    return _line(lab, night, position, work, ending)


def verdict_of(case: RecordedCase, *, is_right: bool) -> Verdict:
    verdict = record_of({**vars(case), "passed": True, "reason": ""}, Verdict)
    if is_right:
        return verdict
    bad = "y[4096]: 0.0, expected 1.46875"
    return replace(verdict, passed=False, reason=WRONG, nmse=0.41, max_abs=3.75, first_bad=bad)


def _line(lab: Lab, night: int, position: int, work: Work, ending: Ending) -> JobLine:
    build = story.build_of(night)
    variant = work.case.variant if ending.outcome != Outcome.SKIPPED else "auto"
    attempt = AttemptLine(
        token=1,
        outcome=ending.outcome,
        reason=ending.reason,
        variant=variant,
        kernel_sha=story.kernel_sha(work.case.case, variant, build),
        environment=lab.environment(work.machine, night),
        worker=f"{work.machine.host}:demonstration",
        started_at=work.ended - EACH,
        seconds=EACH * 0.9,
        telemetry=_telemetry(work),
        recorded_at=work.ended,
        bundle=lab.bundles[build],
    )
    return JobLine(
        position=position,
        device=lab.facts(work.machine).key,
        case=work.case.case,
        mode=Mode.PERFORMANCE,
        variant="auto",
        bundle="",  # the one that is packaged there
        limit_seconds=60.0,
        measure_seconds=0.3,
        noise=0.005,
        estimate_seconds=EACH,
        state=JobState(ending.outcome),
        token=1,
        tries=0,
        dispatches=1,
        finished_at=work.ended,
        settled_token=1,
        cause="",
        reason=ending.reason,
        attempts=(attempt,),
        verdict=ending.verdict,
        timings=ending.timings,
    )


def _telemetry(work: Work) -> Mapping[str, float]:
    return {TICK: 1.0, CANARY_SECONDS: work.canary, CANARY_AT: work.canary_at}
