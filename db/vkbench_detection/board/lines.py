"""What a board reads of an export's jobs: the few fields that it shows, and their bounds."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from vkbench.bounds import MOST_NAME_BYTES, UNSHOWN
from vkbench.case import parse
from vkbench.job import ArmKind, JobState, Mode
from vkbench.result import Side
from vkbench_db.transfer.lines import KINDS

MOST_BYTES: Final = 2**63 - 1  # bytes and operations that an index keeps


class Apart(StrEnum):
    """Why a timing does not count."""

    NOT = ""
    ENVIRONMENT = "unknown environment: its export does not say which driver it ran on"
    NO_TIME = "it took no time"
    WRONG = "its output is wrong"
    THROTTLED = "the device was throttled"
    CHECKED = "the device checked bounds while it was timed"
    BEYOND = "beyond the roof: faster than this device can be"


class BoardTiming(Struct, frozen=True, kw_only=True, gc=False):
    """A timing of a job, without its samples."""

    metric: str
    seconds: float
    bytes_moved: int
    flops: int
    warnings: tuple[str, ...] = ()
    side: Side = Side.OURS


class BoardAttempt(Struct, frozen=True, kw_only=True, gc=False):
    """An attempt at a job, as far as a board tells it."""

    token: int
    variant: str
    kernel_sha: str
    environment: str  # hash
    telemetry: Mapping[str, float]


class BoardVerdict(Struct, frozen=True, kw_only=True, gc=False):
    """The arithmetic that judged a result."""

    path: str


class BoardJob(Struct, frozen=True, kw_only=True, gc=False):
    """A job, as far as a board tells it."""

    position: int
    device: str  # key
    case: str
    mode: Mode
    variant: str
    bundle: str
    state: JobState
    settled_token: int | None
    attempts: tuple[BoardAttempt, ...]
    verdict: BoardVerdict | None
    timings: tuple[BoardTiming, ...]
    arm_kind: ArmKind = ArmKind.BUNDLE

    @property
    def settling(self) -> BoardAttempt | None:
        """The attempt that the verdict and the timings are of."""
        for attempt in self.attempts:
            if attempt.token == self.settled_token:
                return attempt
        return None


BOARD_KINDS: Final[Mapping[str, type[Any]]] = {**KINDS, "job": BoardJob}


@lru_cache(maxsize=20_000)
def check_word(text: str) -> str:
    """A name as an index may hold it; ValueError says what is wrong with it."""
    if len(text.encode()) > MOST_NAME_BYTES:
        raise ValueError(f"a name has over {MOST_NAME_BYTES} bytes")
    if control := UNSHOWN.search(text):
        raise ValueError(f"a name has the control character {control[0]!a}")
    return text


@lru_cache(maxsize=20_000)
def check_case(name: str) -> str:
    """A case's name; ValueError or UsageError for what is none."""
    parse(check_word(name))
    return name
