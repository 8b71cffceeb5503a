"""What an H200 really needed for 923 cases: the seed of the demonstration's results.

The file was made of the exports of H200s in docs/results at commit f09369b: of each kernel, its
formats and its code path the case that moves most bytes, and one for a single vector.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vkbench import decoding
from vkbench.device import DeviceFacts, Environment
from vkbench.result import Side, Timing
from vkbench_db.rows import record_of
from vkbench_worker.timing.summary import Sampling, timing_of

FILE = Path(__file__).parent / "recording.json.gz"
MOST = 12  # samples of a timing, to keep the file small
LEAST_SCATTER = 0.0005
TAIL = 2.0  # shape of the distribution: the lower, the longer the tail


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
    return decoding.decode(gzip.decompress(FILE.read_bytes()), Recording)


def timing(
    recorded: RecordedTiming, seconds: float, rng: np.random.Generator, side: Side = Side.OURS
) -> Timing:
    """A timing of about these seconds; its bytes, operations and scatter are recorded ones."""
    count = max(3, min(MOST, recorded.count))
    scatter = max(LEAST_SCATTER, recorded.mad / recorded.seconds) if recorded.seconds else 0.0
    drawn = rng.gamma(TAIL, scatter, count)
    values = (seconds * (1 + drawn - TAIL * scatter)).tolist()
    how = record_of({**vars(recorded), "side": side, "clock": "gpu"}, Sampling)
    return timing_of(values, how)
