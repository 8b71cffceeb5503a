"""A selection: which cases a user wants to run, and on which devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vkbench.job import MAIN, Mode, Source

AUTO = "auto"  # the best code path that a device supports
ALL = "all"  # each of a kernel's code paths
LIMIT_SECONDS = 60.0
NOISE = 0.005


@dataclass(frozen=True, kw_only=True)
class Weights:
    """A tensor of a file, as it was when the run was submitted."""

    source: Source
    format: str
    shape: tuple[int, ...]  # elements, outermost first
    sha: str  # first digits of the SHA-256 of its bytes


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """A model file as it was when the run was submitted, and the cases to run on it."""

    source: Source
    cases: tuple[str, ...]  # whole names
    bytes: int  # of its weights


@dataclass(frozen=True, kw_only=True)
class OwnCases:
    """What a user's kernel can do, as its bundle declares it."""

    kernel: str
    cases: tuple[str, ...]  # whole names
    timed: tuple[str, ...]  # those of them that are timed too
    variants: tuple[str, ...]
    seeded: tuple[str, ...] = ()  # more of its cases: the same ones with other inputs
    track: str = ""  # instead of the main one: of a shadow, whose cases are the catalogue's


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which cases run on which devices, and how; the suite fills in what is not given."""

    suite: str = ""  # "" with no kernel: the whole catalogue
    kernels: tuple[str, ...] = ()  # globs
    formats: tuple[str, ...] = ()  # globs
    shapes: tuple[Mapping[str, int], ...] = ()  # instead of the listed ones
    cases: tuple[str, ...] = ()  # whole names, instead of all of the above
    devices: tuple[str, ...] = ()  # selectors, see vkbench.selector; none is all
    mode: Mode = Mode.BOTH
    variant: str = AUTO  # a code path by name, AUTO (also: whatever the suite says) or ALL
    bundle: str = ""  # SHA-256 or its beginning; "" is the packaged one
    program: str = ""  # another program, of which `bundle` is a build
    driver: str = ""  # hash of a driver that was added; "" is the host's own
    priority: int = 0  # higher goes first
    track: str = MAIN  # history that the timings join; "" is none
    repeat: int = 1  # each job this many times, checks with other inputs each time
    peers: tuple[str, ...] = ()  # programs that each timed case is compared with
    measure_seconds: float | None = None  # None: the suite's
    noise: float = NOISE
    limit_seconds: float = LIMIT_SECONDS
    weights: Weights | None = None  # a tensor of a file, for kernels that read weights
    model: ModelFile | None = None  # whose cases run instead of the catalogue's
    own: OwnCases | None = None  # of a user's kernel, which run instead of the catalogue's
