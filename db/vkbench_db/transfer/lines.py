"""The lines of an exported run: JSON objects with one key, which says what the line is.

{"header": ...}       format, version, how many jobs follow
{"run": ...}
{"device": ...}       one each
{"environment": ...}
{"bundle": ...}       manifests; the blobs stay
{"build": ...}        names and hashes of a program's files; the files stay
{"accuracy": ...}     what formats or models lost, one each
{"job": ...}          one each, with its attempts, verdict and timings
{"end": ...}          SHA-256 of all lines before, so that a cut or changed file shows
{"signature": ...}    who vouches for them: by a person's SSH key, over what the end says
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vkbench.accuracy import Accuracy
from vkbench.device import DeviceFacts, Environment
from vkbench.job import ArmKind, JobState, Mode, Outcome
from vkbench.programs.build import Build
from vkbench.result import Statistic, Timing, Verdict
from vkbench.run import RunKind

FORMAT = "vkbench-results"
VERSION = 1
NAMESPACE = "vkbench-results"  # of signatures: none that was made for a build passes here


@dataclass(frozen=True, kw_only=True)
class Header:
    """The format and version of the file, and how many jobs follow."""

    format: str
    version: int
    jobs: int


@dataclass(frozen=True, kw_only=True)
class RunLine:
    """The line of an export that tells its run."""

    uuid: str
    created_at: float
    user: str
    label: str
    tags: Mapping[str, Any]
    selection: Mapping[str, Any]
    mode: Mode
    priority: int
    cancelled_at: float | None
    track: str = "main"
    kind: RunKind | None = None  # files of earlier versions say it by tags
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class EnvironmentLine:
    """An environment under the hash that attempts name it by."""

    hash: str
    facts: Environment


@dataclass(frozen=True, kw_only=True)
class BundleLine:
    """A line of an export with a bundle's manifest."""

    sha: str
    name: str
    manifest: str
    created_at: float
    made_of: tuple[str, ...] = ()  # git revisions, as far as whoever made it knew


@dataclass(frozen=True, kw_only=True)
class AccuracyLine(Accuracy):
    """A row of an accuracy run."""

    position: int


@dataclass(frozen=True, kw_only=True)
class AttemptLine:
    """One attempt at a job."""

    token: int
    outcome: Outcome
    reason: str
    variant: str
    kernel_sha: str
    environment: str  # hash
    worker: str
    started_at: float | None
    seconds: float
    telemetry: Mapping[str, float]
    recorded_at: float
    bundle: str = ""  # files of earlier versions have none
    settings: str = ""


@dataclass(frozen=True, kw_only=True)
class JobLine:
    """A job; every database identifies it by run UUID and position."""

    position: int
    device: str  # key
    case: str
    mode: Mode
    variant: str
    bundle: str
    limit_seconds: float
    measure_seconds: float
    noise: float
    estimate_seconds: float
    state: JobState  # queued for all that has not ended: where it stands matters at home alone
    token: int
    tries: int
    dispatches: int
    finished_at: float | None
    settled_token: int | None
    cause: str
    reason: str
    attempts: tuple[AttemptLine, ...]
    verdict: Verdict | None  # of the attempt that settled it, as are the timings
    timings: tuple[Timing, ...]
    against: str = ""
    metric: str = ""
    new_first: bool = False
    arm_kind: ArmKind = ArmKind.BUNDLE
    driver: str = ""
    statistics: tuple[Statistic, ...] = ()


@dataclass(frozen=True, kw_only=True)
class End:
    """The end of the file: whether all lines are there and unchanged."""

    jobs: int
    sha256: str

    @property
    def statement(self) -> str:
        """What a signature is of: the hash covers all lines, so that nothing else need be."""
        return f"{FORMAT} {self.jobs} {self.sha256}\n"


@dataclass(frozen=True, kw_only=True)
class SignatureLine:
    """An SSH signature of the lines before it."""

    signature: str
    key: str = ""  # whose it is, as the reader found; not of the file


KINDS: Mapping[str, type[Any]] = {
    "header": Header,
    "run": RunLine,
    "device": DeviceFacts,
    "environment": EnvironmentLine,
    "bundle": BundleLine,
    "build": Build,
    "accuracy": AccuracyLine,
    "job": JobLine,
    "end": End,
    "signature": SignatureLine,
}
