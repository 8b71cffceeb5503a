"""A job: one case to be checked or timed on one device, as it travels, and how it can end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

AUTO: Final = "auto"  # as a variant: the best code path that the device supports


class Mode(StrEnum):
    """What a job is to find out."""

    CORRECTNESS = "correctness"
    PERFORMANCE = "performance"  # the output is checked too: a timing counts only if it is right
    BATCH = "batch"  # whether a row's bits depend on how many rows there are
    COMPILE = "compile"  # how long a driver without caches takes to make the kernel ready
    PEER = "peer"  # another program, named by the variant, and our kernel timed in turns
    PAIRED = "paired"  # two bundles timed in turns: old, new, new, old, or new, old, old, new
    SHARDED = "sharded"  # divided among devices of a host by `vkbench shard`; it is never queued
    ACCURACY = "accuracy"  # what formats and models lose: such a run has rows and no jobs
    BOTH = "both"  # as asked for in a selection; a plan turns it into one job of each


CHECKS = (Mode.CORRECTNESS, Mode.BATCH)  # modes that time nothing
PROPERTIES = (Mode.BATCH, Mode.COMPILE)  # modes of single kernels, beside checks and timings


class JobState(StrEnum):
    """Where a job stands in the database; only the store moves it."""

    ARRIVING = "arriving"  # stored before all jobs of its run are: it is not sent yet
    QUEUED = "queued"
    DISPATCHED = "dispatched"  # sent to its device's queue
    RUNNING = "running"  # its lease says that it is on the device now
    PASSED = "passed"
    WRONG = "wrong"
    SKIPPED = "skipped"  # it cannot run there, with a reason
    FAILED = "failed"  # it never ended well, with the cause
    CANCELLED = "cancelled"
    ELSEWHERE = "elsewhere"  # of an imported run, not ended: its own database sends it


IN_FLIGHT = (JobState.DISPATCHED, JobState.RUNNING)
ACTIVE = (JobState.QUEUED, *IN_FLIGHT)  # still to be run by this database's fleet
OPEN = (JobState.ARRIVING, *ACTIVE)  # what cancelling a run ends
UNFINISHED = (*OPEN, JobState.ELSEWHERE)
SETTLED_STATES = (JobState.PASSED, JobState.WRONG, JobState.SKIPPED)  # a result decided the job
SEVERITY = (JobState.WRONG, JobState.FAILED, JobState.SKIPPED, JobState.PASSED)  # worst first
TRIED_STATES = (*SETTLED_STATES, JobState.FAILED)  # its attempts decided the job
FINISHED = (*TRIED_STATES, JobState.CANCELLED)


class Outcome(StrEnum):
    """How one attempt ended."""

    PASSED = "passed"
    WRONG = "wrong"
    SKIPPED = "skipped"
    ERROR = "error"  # the runner reported why the job failed
    CRASHED = "crashed"  # the runner died: signal or exit status
    TIMED_OUT = "timed_out"  # the runner was ended at the job's limit
    DEVICE_LOST = "device_lost"  # the driver lost it, or no runner could open it
    WORKER_DIED = "worker_died"  # the runner and its supervisor died
    HANDED_BACK = "handed_back"  # the worker was stopped before it ended: no attempt, no try
    LOST = "lost"  # sent MAX_DISPATCHES times, and no result came back


AWAITED = " is awaited: "  # in the reason of a job that waits for a bundle, before what is wrong
SETTLED = (Outcome.PASSED, Outcome.WRONG, Outcome.SKIPPED)  # the first of these decides the job

MAIN = "main"  # the default track: timings that regression detection watches
SHARDS = "shards"  # that of cases divided among devices
PEERS = "peers"  # that of other programs' timings of the same cases

MAX_TRIES = 3  # attempts without a verdict after which a job fails
MAX_DISPATCHES = 30  # times that a job is sent before it fails


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the weights of a job lie, on the host that runs it."""

    path: str  # a GGUF file, absolute
    tensor: str  # its name there


class ArmKind(StrEnum):
    """What can be held against another of its kind on a device."""

    BUNDLE = "bundle"  # compiled kernels, named by the SHA-256 of their manifest
    BUILD = "build"  # a version of a program, named by the SHA-256 of its files
    # In jobs named by the SHA-256 of its files; in what people compare by its name or version.
    DRIVER = "driver"


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A thing under test: a side of a pair or a comparison, a point of a bisection."""

    name: str  # among its kind; "" is the packaged bundle
    kind: ArmKind = ArmKind.BUNDLE


@dataclass(frozen=True, kw_only=True)
class Pair:
    """What a job's own arm is timed in turns with, and how."""

    old: Arm
    metric: str  # hot or cold
    new_first: bool = False  # the turns are new, old, old, new


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a runner needs to run a case; the token makes its result count once."""

    id: int
    token: int  # fencing: grows with every dispatch of this job
    case: str  # canonical name
    mode: Mode  # correctness or performance
    variant: str = AUTO  # code path asked for
    bundle: str = ""  # SHA-256 of the arm under test; "" is the packaged bundle
    arm_kind: ArmKind = ArmKind.BUNDLE  # what that is; a build's program is named by the variant
    pair: Pair | None = None  # of a paired job alone
    hot_only: bool = False  # a timing leaves out the cold metric
    limit_seconds: float = 60.0  # the runner is ended after this
    measure_seconds: float = 1.0  # time budget of one metric of a timing
    noise: float = 0.005  # relative half-width of the median's interval at which sampling stops
    alone: bool = False  # travels in a chunk of its own: it failed before, or is long
    run: int = 0  # the submission it belongs to; 0 where that does not matter
    source: Source | None = None  # of the weights, where the case names them
    tuned: str = ""  # configuration that was measured to be the fastest there; `auto` takes it
    driver: str = ""  # SHA-256 of the driver that its kernel runs through; "" is the host's own

    @property
    def arm(self) -> Arm:
        """The arm that the job tests; of a pair, the new one."""
        return Arm(name=self.bundle, kind=self.arm_kind)

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms that the job tests; of a pair, the old one first."""
        return (self.pair.old, self.arm) if self.pair else (self.arm,)

    @property
    def bundles(self) -> tuple[str, ...]:
        """The bundles that the job needs; of a pair, the old one first."""
        return tuple(arm.name for arm in self.arms if arm.kind is ArmKind.BUNDLE)

    @property
    def builds(self) -> tuple[str, ...]:
        """The builds of a program that the job needs; of a pair, the old one first."""
        return tuple(arm.name for arm in self.arms if arm.kind is ArmKind.BUILD)

    @property
    def drivers(self) -> tuple[str, ...]:
        """The drivers that the job is of, the old one first; none if that is the host's own."""
        arms = tuple(arm.name for arm in self.arms if arm.kind is ArmKind.DRIVER)
        return arms or ((self.driver,) if self.driver else ())


def pair_of(job: Job) -> Pair:
    """The pair of a paired job."""
    if job.pair is None:
        raise ValueError(f"job {job.id} is {job.mode} and has no pair")
    return job.pair


@dataclass(frozen=True, kw_only=True)
class PlannedJob:
    """One row of a plan: what is to run on which device, before it has an identity."""

    device: str  # device key
    case: str  # canonical name
    mode: Mode  # correctness or performance
    variant: str = AUTO
    bundle: str = ""  # SHA-256 of what computes the case; "" is the packaged bundle
    arm_kind: ArmKind = ArmKind.BUNDLE  # what that is; a build's program is named by the variant
    pair: Pair | None = None  # of a paired job alone
    limit_seconds: float = 60.0
    measure_seconds: float = 1.0
    noise: float = 0.005
    estimate_seconds: float = 0.1  # expected time on the device; chunks are cut by it
    source: Source | None = None
    driver: str = ""  # SHA-256 of the driver that its kernel runs through; "" is the host's own
