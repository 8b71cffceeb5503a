"""What an exported tuning table says of how it was measured, so that others can check it.

A table that ships has none: it was checked when it was merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vkbench.device import DeviceFacts


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """The timings of a configuration in a sweep, each of a job whose results were judged right."""

    configuration: str
    seconds: tuple[float, ...]  # of each round
    low: float  # least and greatest ends of the medians' intervals
    high: float


@dataclass(frozen=True, kw_only=True)
class Proof:
    """How a case was swept: by which kernels, how often, and what was judged wrong."""

    case: str
    bundle: str  # SHA-256
    code: str  # hash of what the two configurations below run; "" if these kernels were not there
    estimated: Rounds
    fastest: Rounds  # the estimated one again where none was faster
    unfit: Mapping[str, str] = field(default_factory=dict)  # configurations without timings -> why


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What a calibration of a device reached, a second; None where it has no such thing."""

    read_bytes: float | None = None
    copy_bytes: float | None = None
    fma_f32: float | None = None
    fma_f16: float | None = None
    dot_i8: float | None = None
    matrices: Mapping[str, float] = field(default_factory=dict)  # by formats: f16_f32


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A device that a table was measured on, as it describes itself, and what it measured."""

    device: DeviceFacts  # without what tells its owner: host, key and UUID
    driver: str
    driver_version: str
    reach: Reach | None  # None: it was not calibrated
    proofs: tuple[Proof, ...]
