"""Reads one export file for a board: its runs, devices, and the timings that may count."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from vkbench.device import DeviceFacts, Environment
from vkbench.errors import UsageError
from vkbench.job import PEERS, ArmKind, JobState, Mode
from vkbench.programs.build import Build
from vkbench.result import BOUNDS_CHECKED, NOT_COLD, THROTTLED, Side
from vkbench.run import RunKind
from vkbench_db.errors import ImportRefused
from vkbench_db.transfer.bounds import check_record
from vkbench_db.transfer.lines import End, EnvironmentLine, RunLine, SignatureLine
from vkbench_db.transfer.transcript import Line, read_records
from vkbench_detection.board.lines import (
    BOARD_KINDS,
    MOST_BYTES,
    Apart,
    BoardAttempt,
    BoardJob,
    BoardTiming,
    check_case,
    check_word,
)

SHOWN = (None, RunKind.WORK, RunKind.CALIBRATION, RunKind.IMPORT)  # files of old name none
NOT_COLD_METRIC = "cold, maybe cached"
_MODES = (Mode.PERFORMANCE, Mode.PEER)
_STATES = (JobState.PASSED, JobState.WRONG)
MOST_HELD = 12_000  # timings, or jobs without one, that are in memory at once
_DIGITS = 12  # of a hash that people read
_UNKNOWN = ("", "unknown")
_NAMES = 7  # at the front of what is the same for jobs of one work: as an index may hold them


class Kind(NamedTuple):
    """What timings of one run and one page have in common."""

    device: str  # key
    variant: str
    driver: str
    build: str
    metric: str
    path: str  # arithmetic; "" of other programs, which no roof judges
    bytes_moved: int
    flops: int
    apart: Apart


@dataclass(frozen=True)
class Bunch:
    """Timings of one run and one page in their order: seconds, and the place of each one's kind."""

    kinds: dict[Kind, int] = field(default_factory=dict)  # places, which count up from 0
    places: array[int] = field(default_factory=lambda: array("I"))
    seconds: array[float] = field(default_factory=lambda: array("d"))


Bunches = Mapping[tuple[str, str], Bunch]  # by name of the class of devices, and case


@dataclass(kw_only=True)
class Section:
    """A run of a file; its hash and key are known once it is read to its end."""

    run: RunLine
    devices: dict[str, DeviceFacts] = field(default_factory=dict)
    environments: dict[str, Environment] = field(default_factory=dict)
    builds: dict[str, Build] = field(default_factory=dict)
    drivers: dict[str, str] = field(default_factory=dict)  # names, by hash of the environment
    jobs: int = 0
    sha: str = ""
    key: str = ""  # fingerprint of the key that signed the run; "" if it is unsigned


def read_sections(lines: Iterable[str]) -> Iterator[tuple[Section, Bunches | None]]:
    """The timings of a file in bunches, each with its run; no bunches at the end of a run.

    ImportRefused names the first line that is wrong: nothing of the file is to be used then.
    """
    section: Section | None = None
    gathering = _Gathering()
    for line in read_records(lines, BOARD_KINDS):
        if isinstance(line.record, BoardJob):
            assert section
            gathering.add(line, line.record, section)
            if gathering.count >= MOST_HELD:
                yield section, gathering.bunches
                gathering = _Gathering()
            continue
        record = check_record(line.number, line.record)
        if isinstance(record, RunLine):
            if section:
                yield from _end_section(section, gathering)
            section, gathering = Section(run=record), _Gathering()
        elif section:
            _add_record(section, record)
    if section is None:
        raise ImportRefused("the file is empty")
    yield from _end_section(section, gathering)


def _end_section(
    section: Section, gathering: _Gathering
) -> Iterator[tuple[Section, Bunches | None]]:
    if gathering.bunches:
        yield section, gathering.bunches
    yield section, None


def _add_record(section: Section, record: object) -> None:
    match record:
        case DeviceFacts():
            section.devices[record.key] = record
        case EnvironmentLine():
            section.environments[record.hash] = record.facts
            section.drivers.pop(record.hash, None)
        case Build():
            section.builds[record.sha] = record
        case End():
            section.sha, section.jobs = record.sha256, record.jobs
        case SignatureLine():
            section.key = record.key


class _Warned(NamedTuple):
    """What a board reads of a timing's warnings."""

    maybe_cached: bool = False  # a cold timing may have hit a cache
    is_throttled: bool = False


_UNWARNED: Final = _Warned()


class _Work(NamedTuple):
    """Jobs that differ in their seconds alone: where their timings go."""

    places: dict[tuple[object, ...], int]  # of kinds, by what a timing says beside its seconds
    kinds: dict[Kind, int]
    add_place: Callable[[int], None]
    add_seconds: Callable[[float], None]


class _Gathering:
    """Timings of a run while they are read. What jobs have in common is looked at once."""

    def __init__(self) -> None:
        self.bunches: dict[tuple[str, str], Bunch] = {}
        self.count = 0
        self._works: dict[tuple[object, ...], _Work] = {}

    def add(self, line: Line, job: BoardJob, section: Section) -> None:
        """Take a job's timings, if they may count; ImportRefused for what is wrong with them."""
        if job.mode not in _MODES or job.state not in _STATES:
            return
        if section.run.kind not in SHOWN or not (attempt := job.settling):
            return
        try:
            self._add_timings(job, attempt, section)
        except KeyError:
            raise ImportRefused(
                f"line {line.number}: no line tells the device {job.device!a}"
            ) from None
        except (ValueError, UsageError) as error:
            raise ImportRefused(f"line {line.number}: {error}") from error

    def _add_timings(self, job: BoardJob, attempt: BoardAttempt, section: Section) -> None:
        places, kinds, add_place, add_seconds = self._find_work(job, attempt, section)
        for timing in job.timings:
            seconds = timing.seconds
            warned = _read_warnings(timing) if timing.warnings else _UNWARNED
            facts = (
                *(timing.metric, timing.bytes_moved, timing.flops, warned, timing.side),
                seconds > 0,
            )
            if (place := places.get(facts)) is None:
                kind = _describe_kind(job, attempt, timing, warned, section)
                place = places[facts] = kinds.setdefault(kind, len(kinds))
            add_place(place)
            add_seconds(seconds)
        self.count += len(job.timings) or 1

    def _find_work(self, job: BoardJob, attempt: BoardAttempt, section: Section) -> _Work:
        facts = (  # all that `_describe_kind` reads of a job and its attempt
            *(job.device, job.variant, job.bundle, job.verdict.path if job.verdict else ""),
            *(attempt.variant, attempt.kernel_sha, attempt.environment),
            *(job.case, job.state, job.arm_kind, bool(attempt.telemetry.get(BOUNDS_CHECKED))),
        )
        if (work := self._works.get(facts)) is None:
            for name in facts[:_NAMES]:
                check_word(str(name))
            page = (section.devices[job.device].name, check_case(job.case))
            bunch = self.bunches.setdefault(page, Bunch())
            work = _Work({}, bunch.kinds, bunch.places.append, bunch.seconds.append)
            self._works[facts] = work
        return work


def _read_warnings(timing: BoardTiming) -> _Warned:
    maybe_cached, is_throttled = (
        any(warning.startswith(words) for warning in timing.warnings)
        for words in (NOT_COLD, THROTTLED)
    )
    return _Warned(maybe_cached, is_throttled)


def _describe_kind(
    job: BoardJob, attempt: BoardAttempt, timing: BoardTiming, warned: _Warned, section: Section
) -> Kind:
    """What a timing has in common with others, its names being checked but for the metric."""
    if not (0 <= timing.bytes_moved <= MOST_BYTES and 0 <= timing.flops <= MOST_BYTES):
        raise ValueError("bytes and operations are counts of 63 bits")
    environment = section.environments.get(attempt.environment)
    is_theirs = timing.side is Side.THEIRS
    is_ours = not is_theirs and job.arm_kind is ArmKind.BUNDLE and section.run.track != PEERS
    return Kind(
        device=job.device,
        variant=job.variant if is_theirs else attempt.variant,
        driver=_find_driver(section, attempt.environment),
        build="" if is_theirs else _name_build(job, attempt, section.builds),
        metric=_name_metric(timing.metric, warned),
        path=job.verdict.path if job.verdict and is_ours else "",
        bytes_moved=timing.bytes_moved,
        flops=timing.flops,
        apart=_find_apart(job, attempt, timing.seconds, warned, environment),
    )


def _name_metric(metric: str, warned: _Warned) -> str:
    """The metric; cold timings that may have hit a cache are a metric of their own."""
    return NOT_COLD_METRIC if metric == "cold" and warned.maybe_cached else check_word(metric)


def _find_apart(
    job: BoardJob,
    attempt: BoardAttempt,
    seconds: float,
    warned: _Warned,
    environment: Environment | None,
) -> Apart:
    if environment is None or environment.driver_version.casefold() in _UNKNOWN:
        return Apart.ENVIRONMENT
    if seconds <= 0:
        return Apart.NO_TIME
    if job.state is JobState.WRONG:
        return Apart.WRONG
    if warned.is_throttled:
        return Apart.THROTTLED
    return Apart.CHECKED if attempt.telemetry.get(BOUNDS_CHECKED) else Apart.NOT


def _find_driver(section: Section, environment: str) -> str:
    """What the driver of an environment is called; the same for all jobs that ran in it."""
    if (facts := section.environments.get(environment)) is None:
        return ""
    if (name := section.drivers.get(environment)) is None:
        name = section.drivers[environment] = _name_driver(facts)
    return name


def _name_driver(environment: Environment) -> str:
    """A driver with its version and, if it is not the default, the clock policy."""
    name = f"{environment.driver} {environment.driver_version}".strip()
    policy = environment.clock_policy
    return check_word(name if policy == "default" else f"{name}, clocks {policy}")


def _name_build(job: BoardJob, attempt: BoardAttempt, builds: Mapping[str, Build]) -> str:
    """A build of a program by its name, or the kernel's compiled code by its hash."""
    if job.arm_kind is ArmKind.BUILD:
        build = builds.get(job.bundle)
        name = build.name if build and build.name else job.bundle[:_DIGITS]
        return check_word(f"{build.program} {name}") if build else name
    sha = attempt.kernel_sha[:_DIGITS]
    return f"kernel {sha}" if sha else ""
