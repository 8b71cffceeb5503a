"""What an H200 really needed, from docs/results: the seed of the demonstration's results.

`python scripts/demo_recording.py` writes the file anew from the exports there.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from vkbench.device import DeviceFacts, Environment

FILE = Path(__file__).parent / "recording.json.gz"


@dataclass(frozen=True, kw_only=True)
class RecordedTiming:
    """One metric of a case: the fields of vkbench.result.Timing that a night needs."""

    metric: str
    seconds: float
    mad: float
    count: int
    launches: int
    stop: str
    bytes_moved: int
    flops: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RecordedCase:
    """One case by one code path, with its accuracy and its timings."""

    case: str
    variant: str  # code path that ran
    path: str  # arithmetic whose limits applied
    nmse: float | None
    nmse_limit: float
    max_abs: float | None
    max_abs_limit: float
    compared: int
    total: int
    timings: tuple[RecordedTiming, ...]
    needs: str = ""  # a code path of the devices that can run it, if not its own
    is_exact: bool = False  # takes as long on each device as its rates say

    @property
    def kernel(self) -> str:
        """The kernel that the case is of."""
        return self.case.partition("/")[0]


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A device, its software, and what it needed for each case."""

    device: DeviceFacts
    environment: Environment
    cases: Sequence[RecordedCase]


def load() -> Recording:
    """The recording that ships."""
    return msgspec.json.decode(gzip.decompress(FILE.read_bytes()), type=Recording)
