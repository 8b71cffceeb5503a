"""What a runner and its supervisor say to each other: one JSON record a line.

Out, first: `Ready`. In: one `Job` a line, as many as one likes ahead. Out: one `Result` a line, in
the same order; before it, now and then, how far the job's `Stage` is, behind the word STAGE. End of
file on stdin ends the runner with exit status 0; a lost device with DEVICE_LOST_STATUS, after its
Result. Standard error is free text; its last line says why a runner died, and a line that begins
with NOTICE goes to the supervisor's log.

A peer's process is told the `Ready` and the jobs in the same way. A job behind the word VISIT comes
again: what was checked of it stays until an empty line comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from vkbench.bounds import count_complaints
from vkbench.device import DeviceFacts, Environment
from vkbench.job import SETTLED, Job, Outcome
from vkbench.messages import wire
from vkbench.result import Result
from vkbench.settings import Settings

T = TypeVar("T")

DEVICE_LOST_STATUS = 42  # exit status of a runner whose device is lost
MALFORMED_STATUS = 65  # a line on stdin was no Job; the line is named on stderr
FAILED_STATUS = 70  # the device could not be opened; the last line of stderr says why
PROCESSOR = "cpu"  # the hardware of all CPU drivers
NOTICE = "notice: "
STAGE = b"stage "
VISIT = b"visit "  # before a job that comes to a peer several times
LET_GO = b"\n"  # after the last of its visits
TELLABLE = (*SETTLED, Outcome.ERROR, Outcome.DEVICE_LOST)  # outcomes that a runner can report


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A runner's first line: its device is open and locked, jobs may come."""

    facts: DeviceFacts
    environment: Environment
    hardware: str = ""  # what other devices of this host may be too; "" is this one's alone
    # It checks the bounds of all kernels or of none: those of other bundles take a runner apart.
    checks_all: bool = False


@dataclass(frozen=True, kw_only=True)
class ListedDevice:
    """A device as a driver of this host shows it."""

    facts: DeviceFacts
    environment: Environment
    pci_address: str = ""  # "" where the driver does not say


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What a process that lists the devices of its host prints."""

    devices: tuple[ListedDevice, ...] = ()
    error: str | None = None  # why there is no device


@dataclass(frozen=True, kw_only=True)
class Stage:
    """How many bytes are done of something that a job waits for."""

    what: str  # and of which file
    done: int
    total: int


def visit_line(job: Job) -> bytes:
    """A visit of a job as one line, newline included."""
    return VISIT + line_of(job)


def line_of(record: Ready | Job | Result) -> bytes:
    """A record as one line, newline included."""
    return wire.encode(record) + b"\n"


def stage_line(stage: Stage) -> bytes:
    """A stage as one line, newline included."""
    return STAGE + wire.encode(stage) + b"\n"


def read_line(line: bytes | str, kind: type[T]) -> T:
    """The record of one line; wire.MalformedMessage when it is none, or has too much."""
    record = wire.decode(line, kind)
    if isinstance(record, Result):
        for complaint in count_complaints(record):
            raise wire.MalformedMessage(f"malformed result: {complaint}")
    return record


def read_result(line: bytes, job: Job) -> Result:
    """The result of a job, as its runner says it.

    The runner ran a user's shader in a driver: MalformedMessage where this answers another job, or
    says what no runner can know.
    """
    result = read_line(line, Result)
    if (result.job, result.token) != (job.id, job.token) or result.outcome not in TELLABLE:
        raise wire.MalformedMessage(
            f"expected a result of job {job.id} token {job.token}, "
            f"got {result.outcome} of job {result.job} token {result.token}"
        )
    return result


def lock_path(settings: Settings, device: str) -> Path:
    """The file whose flock says that a runner holds this device."""
    return lock_folder(settings) / f"{device}.lock"


def owner_path(settings: Settings, device: str) -> Path:
    """The file whose flock says that a supervisor has this device, between two runners too."""
    return lock_folder(settings) / f"{device}.owner"


def canary_folder(settings: Settings) -> Path:
    """Where the readings of canaries are."""
    return settings.data / "canaries"


def lock_folder(settings: Settings) -> Path:
    """Where all locks of devices and of hardware are."""
    return settings.data / "locks"
