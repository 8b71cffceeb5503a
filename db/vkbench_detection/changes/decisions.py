"""Suspicions and decisions about change points: records that `transitions` writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from vkbench_detection.changes.change_point import Method
from vkbench_detection.changes.states import ChangeState
from vkbench_detection.series.points import Origin

# directions of cases that passed before; times become slower or faster
WRONG = "wrong"
FAILED = "failed"  # crashed, lost the device, ran into its limit, or was refused by the driver
VERDICTS = (WRONG, FAILED)

Figures: TypeAlias = Mapping[str, float | None]  # ratio, low, high, p


class Cause(StrEnum):
    """What moved with the change."""

    KERNEL = "kernel"
    BUILD = "build"  # of a program, which computed the case in place of a kernel
    DRIVER = "driver"  # pairs of the old and the new one differ
    ENVIRONMENT = "environment"  # the driver, or other software
    HOST = "host"  # neither kernel nor environment
    UNKNOWN = "unknown"  # kernel or build, and environment at once


OF_SOFTWARE = (Cause.DRIVER, Cause.ENVIRONMENT)  # what runs the kernel moved, not the kernel
OF_CODE = (Cause.KERNEL, Cause.BUILD)  # what computes the case moved, and nothing else


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """What a suspicion turns out to be, and why."""

    state: ChangeState  # one of DECIDED
    note: str
    cause: Cause | None = None  # None leaves the cause that is stored
    figures: Figures = field(default_factory=dict)  # none leaves those that are stored


@dataclass(frozen=True, kw_only=True)
class Suspicion:
    """A change point to be stored."""

    series: int
    method: Method
    direction: str
    before_job: int  # the last good one
    after_job: int  # the first bad one
    ratio: float | None = None  # new over old
    note: str = ""
    after: Origin | None = None  # of the first bad job, where no attempt settled it
    conclusion: Conclusion | None = None  # for a change that is decided when it is found


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A conclusion about a change point that is stored."""

    change: int
    conclusion: Conclusion
    between: tuple[int, int] | None = None  # jobs between which it lies, where that is known better


@dataclass(frozen=True, kw_only=True)
class Reopening:
    """A change point that is not confirmed, and is to be measured again from the start."""

    change: int
    note: str  # why
    ratio: float | None = None  # new over old, as it is suspected now
    between: tuple[int, int] | None = None  # jobs between which it lies, where that is known better


def cause_of(before: Origin, after: Origin) -> Cause:
    """The cause that history alone suggests: whatever moved between two neighbours."""
    kernel = before.kernel != after.kernel
    environment = before.environment != after.environment
    if kernel and environment:
        return Cause.UNKNOWN
    if kernel:
        return Cause.BUILD if after.is_build else Cause.KERNEL
    return Cause.ENVIRONMENT if environment else Cause.HOST


def moves(made_with: Mapping[int, Origin], jobs: Sequence[int]) -> list[int]:
    """The places of those jobs, in their order, before which kernel or environment moved."""
    moments = [made_with.get(job, Origin()) for job in jobs]
    causes = map(cause_of, moments, moments[1:])
    return [place for place, cause in enumerate(causes, start=1) if cause != Cause.HOST]
