"""What one attempt at a job found: verdict, timings with all samples, where they were taken."""

from __future__ import annotations

import base64
import sys
import zlib
from array import array
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from vkbench.job import Outcome

HOT: Final = "hot"  # launches over the same buffers
COLD: Final = "cold"  # launches over buffers that no cache holds
COMPILE: Final = "compile"  # what a kernel takes before its launches are fast, without caches
SUBMIT: Final = "submit"  # what the host takes to hand one recorded launch to the driver
UNPAIRED: Final = (COMPILE, SUBMIT)  # metrics that no pair times
COPIES: Final = "copies"  # of shards: hot ones, with uploads before and read-backs after them
STEP: Final = "step_"  # how telemetry names a model's steps: seconds of all of one label
# What telemetry tells of a whole model: the bytes and numbers of its tensors, and the most device
# memory that all its buffers took.
MODEL_BYTES: Final = "model_bytes"
MODEL_WEIGHTS: Final = "model_weights"
MEMORY_BYTES: Final = "memory_bytes"
OTHERS_BYTES: Final = "memory_of_others_bytes"  # device memory that other processes held meanwhile
# What telemetry tells of an attempt that did not settle its job, so that detection knows whom to
# blame: the driver refused a call of the job, or no runner could open the device for it.
DRIVER_FAILED: Final = "driver_failed"
UNOPENED: Final = "unopened"
THROTTLED: Final = "throttled"  # first words of the warning that the device was
NOT_COLD: Final = "not cold"  # first words of the warning that a cold timing may have hit a cache


class Side(StrEnum):
    """What a timing is of: our kernel, another program, or an arm of a pair."""

    OURS = "ours"
    THEIRS = "theirs"
    OLD = "old"
    NEW = "new"


ARMS: Final = (Side.OLD, Side.NEW)  # in the order of Job.bundles


class WrongArm(StrEnum):
    """Which outputs of a pair are wrong."""

    NONE = "none"
    OLD = "old"
    NEW = "new"
    BOTH = "both"

    @classmethod
    def of(cls, arms: Collection[str]) -> WrongArm:
        """The member for these wrong arms."""
        if len(arms) > 1:
            return cls.BOTH
        return cls(next(iter(arms), cls.NONE))

    @property
    def is_old(self) -> bool:
        """Whether outputs of the old bundle are wrong."""
        return self in (WrongArm.OLD, WrongArm.BOTH)

    @property
    def is_new(self) -> bool:
        """Whether outputs of the new bundle are wrong."""
        return self in (WrongArm.NEW, WrongArm.BOTH)


BOUNDS_CHECKED: Final = "bounds_checked"  # telemetry: 1 where a device checked them while it timed


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How an output compares with its float64 reference; every count is over what was examined."""

    passed: bool
    reason: str  # the first criterion that failed, as a sentence; "" when all hold
    path: str  # arithmetic path whose limits applied
    nmse: float | None  # sum (y - ref)^2 / sum ref^2; None when not finite or nothing was compared
    nmse_limit: float
    max_abs: float | None  # largest |y - ref|
    max_abs_limit: float
    compared: int  # elements compared with the reference
    total: int  # elements of the output
    nonfinite: int = 0  # NaN or Inf where the reference is finite, or the other way round
    unwritten: int = 0  # elements that still hold the poison
    guard_bytes: int = 0  # bytes changed outside the buffers
    unrepeated: int = 0  # elements whose bits differed on a second run
    first_bad: str = ""  # binding[index]: found, expected
    wrong_arm: WrongArm = WrongArm.NONE  # of a paired job


@dataclass(frozen=True, kw_only=True)
class Statistic:
    """A number that a driver's work on a kernel has and that is no time: registers, bytes, joules.

    One without a spread is exact: whatever differs from it is a change.
    """

    name: str  # in the driver's words where it names it
    value: float | None  # None where there is none to be had: the note says why
    unit: str = ""  # "bytes", "J"; "" of counts
    spread: float | None = None  # how far readings were from it; None of exact numbers
    note: str = ""

    @property
    def words(self) -> str:
        """The number with its unit, as people read it, or why there is none."""
        if self.value is None:
            return self.note
        if self.spread is None:
            return f"{self.value:.15g} {self.unit}".rstrip()
        return f"{self.value:.4g} ± {self.spread:.2g} {self.unit}".rstrip()

    def differs_from(self, other: Statistic) -> bool:
        """Whether two values are not the same; measured ones if their readings do not overlap."""
        if self.value is None or other.value is None:
            return False
        return abs(self.value - other.value) > (self.spread or 0.0) + (other.spread or 0.0)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One metric of one attempt: seconds of one launch of the kernel."""

    metric: str  # hot | cold; of shards, hot | copies; compile | submit
    seconds: float  # median of the samples
    mad: float  # median absolute deviation
    low: float  # order-statistic interval of the median
    high: float
    confidence: float  # confidence that interval reached
    best: float
    count: int  # samples
    launches: int  # launches in one sample
    stop: str  # noise | time: which bound ended the sampling
    clock: str  # gpu | host
    bytes_moved: int  # by one launch, each input read and each output written once
    flops: int
    samples: str  # packed, see pack_samples
    warnings: tuple[str, ...] = ()
    side: Side = Side.OURS


@dataclass(frozen=True, kw_only=True)
class Result:
    """The end of one attempt; it counts once for each (job, token)."""

    job: int
    token: int
    outcome: Outcome
    case: str = ""
    reason: str = ""  # why skipped, wrong, or not done
    variant: str = ""  # code path that ran; with its settings if a table or the job named these
    settings: str = ""  # all that ran, named or estimated: "split=2,tile=64x64_8x8"
    kernel_sha: str = ""  # SHA-256 of the SPIR-V that ran; of a paired job, of the new one
    bundle: str = ""  # SHA-256 of the bundle that ran, the packaged one's too
    verdict: Verdict | None = None
    timings: tuple[Timing, ...] = ()
    statistics: tuple[Statistic, ...] = ()  # of compiling alone
    device: str = ""  # device key
    environment: str = ""  # environment hash
    worker: str = ""
    started: float = 0.0  # Unix time
    seconds: float = 0.0  # time on the device's runner
    telemetry: Mapping[str, float] = field(default_factory=dict)  # clocks, power, where told


def pack_samples(seconds: Iterable[float]) -> str:
    """Samples as text: float32, little-endian, zlib, base64."""
    return base64.b64encode(zlib.compress(_little(array("f", seconds)).tobytes())).decode()


def unpack_samples(packed: str) -> list[float]:
    """The samples of `pack_samples`."""
    values = array("f")
    values.frombytes(zlib.decompress(base64.b64decode(packed)))
    return list(_little(values))


def _little(values: array[float]) -> array[float]:
    if sys.byteorder == "big":
        values.byteswap()
    return values
