"""Timings that other programs took by themselves, as a run of results: a peer's, or a build's.

A peer's result is a job of the same case and device, whose code path is the peer's name. Its
outputs were never judged here, so it passed in the sense alone that it was timed. A result of a
build joins the series that the program has by its runs here.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final, Protocol, TypeVar
from uuid import NAMESPACE_URL, uuid5

from vkbench.case import Case
from vkbench.configuration import text_of
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench.job import MAIN, PEERS, ArmKind, JobState, Mode, Outcome
from vkbench.messages.wire import encode
from vkbench.programs.build import Build
from vkbench.result import HOT, Side, Timing, pack_samples
from vkbench.run import RunKind
from vkbench_db.transfer.lines import (
    FORMAT,
    VERSION,
    AttemptLine,
    End,
    Header,
    JobLine,
    RunLine,
)
from vkbench_db.transfer.transcript import Line
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Problem
from vkbench_worker.timing.statistics import deviation, interval

_MOST_WORK: Final = 1 << 53  # operations or bytes of a launch


@dataclass(frozen=True, kw_only=True)
class PeerTiming:
    """What a program said of a case."""

    case: str
    samples: Sequence[float]  # seconds of one launch; their mean alone if that is all
    deviation: float  # of what the mean is of
    finished_at: float  # Unix time; 0 if it did not say
    seconds: float  # that all of it took
    origin: str  # who timed it and how
    settings: Mapping[str, str]  # of the build and the run, that may change its speed
    metric: str = HOT
    clock: str = "host"
    bytes_moved: int = 0
    flops: int = 0
    telemetry: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PeerRun:
    """What of a file has a case here."""

    records: Sequence[Line]  # as of an export
    left_out: Mapping[str, int]  # how many tests have none, by reason


@dataclass(frozen=True, kw_only=True)
class PeerFile:
    """A file of a program's timings."""

    peer: str  # code path of its results: a peer's name, or that of the build's program
    label: str  # of the run
    moment: float = 0.0  # Unix time of the timings that do not say theirs
    example: str = ""  # of a case's name, where the tests have to be named as cases
    build: Build | None = None  # that it is of; None for a peer


class PeerTest(Protocol):
    """A test of a file."""

    @property
    def number(self) -> int:
        """Which of the file's tests it is, from 1."""

    @property
    def device(self) -> str:
        """The device as the file describes it; "" if it does not say."""


class NoCase(Exception):
    """A test does what no case here does; the message says what."""


T = TypeVar("T", bound=PeerTest)


def peer_run(
    file: PeerFile,
    tests: Iterable[T],
    timing_of: Callable[[T], PeerTiming],
    devices: Sequence[DeviceFacts],
    device: DeviceFacts | None = None,
) -> PeerRun:
    """The tests of a file as a run, on one of the devices known here.

    `timing_of` raises NoCase for a test that is left out. `device` is that of all tests, where the
    file need not tell. UsageError if a test's device is not known, or no test has a case.
    """
    left_out: Counter[str] = Counter()
    timings: list[tuple[DeviceFacts, PeerTiming]] = []
    for test in tests:
        try:
            timing = timing_of(test)
        except NoCase as error:
            left_out[str(error)] += 1
            continue
        timings.append((device or _device_of(test, devices), timing))
    if not timings:
        reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        example = f"; a case is named such as {file.example}" if file.example else ""
        raise UsageError(f"none of the tests has a case here: {reasons}{example}")
    return PeerRun(records=_records_of(file, timings), left_out=left_out)


def posed_case(case: Case | str) -> Problem:
    """A case of the catalogue; VkbenchError or ValueError if it is none that a device may do."""
    posed = problem(case)
    if max(posed.flops, posed.bytes_moved) > _MOST_WORK:
        raise ValueError("more than any device does")
    return posed


def _device_of(test: PeerTest, devices: Sequence[DeviceFacts]) -> DeviceFacts:
    """The device here that a test names; UsageError if none is, or several are."""
    if not test.device:
        raise UsageError("the file does not say which device it ran on: give --device")
    named = [facts for facts in devices if facts.name and facts.name in test.device]
    if len(named) == 1:
        return named[0]
    has = f"{len(named)} devices here are" if named else "no device here is"
    raise UsageError(f"{has} '{test.device}', which test {test.number} ran on: give --device")


def _records_of(file: PeerFile, timings: Sequence[tuple[DeviceFacts, PeerTiming]]) -> list[Line]:
    """Timings on devices as the records of an export."""
    moment = file.moment
    jobs = [_job(file, number, *timed) for number, timed in enumerate(timings)]
    uuid = _uuid(file.peer, jobs)  # of the results alone, however often they are imported
    jobs = [job if job.finished_at else _finish_job(job, moment) for job in jobs]
    run = RunLine(
        uuid=uuid,
        created_at=min(job.finished_at or moment for job in jobs),
        user="",
        label=file.label,
        kind=RunKind.WORK if file.build else RunKind.IMPORT,
        about={} if file.build else {"peer": file.peer},
        tags={},
        selection={},
        mode=Mode.PERFORMANCE,
        priority=0,
        cancelled_at=None,
        track=MAIN if file.build else PEERS,
    )
    devices = {facts.key: facts for facts, _ in timings}
    return list(_lines(run, file.build, devices.values(), jobs))


def _finish_job(job: JobLine, moment: float) -> JobLine:
    attempts = tuple(replace(attempt, recorded_at=moment) for attempt in job.attempts)
    return replace(job, finished_at=moment, attempts=attempts)


def _job(file: PeerFile, position: int, device: DeviceFacts, timed: PeerTiming) -> JobLine:
    build = file.build.sha if file.build else ""
    attempt = AttemptLine(
        token=1,
        outcome=Outcome.PASSED,
        reason="",
        variant=file.peer,
        kernel_sha=build,
        environment="",
        worker="",
        started_at=None,
        seconds=timed.seconds,
        telemetry=timed.telemetry,
        recorded_at=timed.finished_at,
        bundle=build,
        settings=text_of(timed.settings),
    )
    return JobLine(
        position=position,
        device=device.key,
        case=timed.case,
        mode=Mode.PERFORMANCE,
        variant=file.peer,
        bundle=build,
        arm_kind=ArmKind.BUILD if build else ArmKind.BUNDLE,
        limit_seconds=0.0,
        measure_seconds=0.0,
        noise=0.0,
        estimate_seconds=0.0,
        state=JobState.PASSED,
        token=1,
        tries=1,
        dispatches=1,
        finished_at=timed.finished_at,
        settled_token=1,
        cause="",
        reason="",
        attempts=(attempt,),
        verdict=None,
        timings=(_timing(timed, Side.OURS if build else Side.THEIRS),),
    )


def _timing(timed: PeerTiming, side: Side) -> Timing:
    samples, spread = timed.samples, timed.deviation
    middle = median(samples)
    bounds = interval(samples)
    alone = len(samples) == 1  # then the file tells the deviation of the mean's repetitions
    return Timing(
        metric=timed.metric,
        side=side,
        seconds=middle,
        mad=spread if alone else deviation(samples),
        low=max(middle - spread, 0.0) if alone else bounds.low,
        high=middle + spread if alone else bounds.high,
        confidence=0.0 if alone else bounds.confidence,
        best=min(samples),
        count=len(samples),
        launches=1,
        stop="time",
        clock=timed.clock,
        bytes_moved=timed.bytes_moved,
        flops=timed.flops,
        samples=pack_samples(samples),
        warnings=(timed.origin,),
    )


def _uuid(peer: str, jobs: Sequence[JobLine]) -> str:
    digest = hashlib.sha256()
    for job in jobs:
        digest.update(encode(job))
    return str(uuid5(NAMESPACE_URL, f"{peer}:{digest.hexdigest()}"))


def _lines(
    run: RunLine, build: Build | None, devices: Iterable[DeviceFacts], jobs: Sequence[JobLine]
) -> Iterator[Line]:
    yield Line(0, "header", Header(format=FORMAT, version=VERSION, jobs=len(jobs)))
    yield Line(0, "run", run)
    if build:
        yield Line(0, "build", build)
    for facts in devices:
        yield Line(0, "device", facts)
    for number, job in enumerate(jobs, 1):
        yield Line(number, "job", job)
    yield Line(0, "end", End(jobs=len(jobs), sha256=""))
