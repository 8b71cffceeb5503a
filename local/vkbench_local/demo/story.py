"""The script of the demonstration: which bundles and drivers make which kernels slower or wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from vkbench_local.demo.lab import DESKTOP, INTEGRATED, MACHINES, Machine


@dataclass(frozen=True, kw_only=True)
class Build:
    """A bundle of kernels that the lab took up, and the kernels that changed in it."""

    night: int
    kernels: Sequence[str] = ()  # globs of cases


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A change of what some cases need, on some devices, for good or until a night."""

    cases: str  # glob
    since: int  # night
    factor: float  # 0 is wrong
    until: int = 1_000_000
    machines: Sequence[Machine] = MACHINES

    def holds(self, case: str, machine: Machine, night: int) -> bool:
        """Whether the planted change holds for a case on a device in a night."""
        is_here = any(changed is machine for changed in self.machines)
        return is_here and self.since <= night < self.until and fnmatchcase(case, self.cases)


BUILDS = (
    Build(night=0),
    Build(night=8, kernels=("copy/*", "softmax/*")),
    Build(night=22, kernels=("rms_norm/*",)),
    Build(night=33, kernels=("dequantize/*",)),
    Build(night=36, kernels=("mul_mat_vec/q[46]_K/*",)),
    Build(night=45, kernels=("rms_norm/*",)),
    Build(night=47, kernels=("get_rows/*",)),
    Build(night=52, kernels=("mul_mat/q4_0/*", "mul_mat/q8_0/*")),
)
DRIVER_NIGHT = 40
PLANTED = (
    Planted(cases="rms_norm/*", since=22, until=45, factor=1.22),  # fixed again
    Planted(cases="mul_mat_vec/q[46]_K/*", since=36, factor=1.09),  # by a bundle, on all devices
    Planted(cases="flash_attn/*", since=DRIVER_NIGHT, factor=1.16, machines=(DESKTOP,)),
    Planted(cases="softmax/f32/*", since=DRIVER_NIGHT, factor=1.12, machines=(DESKTOP,)),
    Planted(cases="get_rows/q4_0/*", since=47, factor=0.0, machines=(INTEGRATED,)),
    Planted(cases="mul_mat/q[48]_0/*", since=52, factor=0.93),  # faster
)
# a device that was busy with something else: its canary shows it, and its series leave it out
BUSY = Planted(cases="*", since=43, until=44, factor=1.11, machines=(INTEGRATED,))


def build_of(night: int) -> int:
    """The number of the bundle that runs in a night."""
    return sum(build.night <= night for build in BUILDS) - 1


def kernel_sha(case: str, variant: str, build: int) -> str:
    """SHA-256 of what a case runs in a bundle: another one after each change of its kernel."""
    changes = [
        number
        for number, build_made in enumerate(BUILDS[: build + 1])
        if any(fnmatchcase(case, glob) for glob in build_made.kernels)
    ]
    kernel, formats, *_ = case.split("/")
    return hashlib.sha256(f"{kernel} {formats} {variant} {changes}".encode()).hexdigest()


def factor(case: str, machine: Machine, night: int, build: int | None = None) -> float:
    """What a case needs in a night, as a multiple of what it needed at first; 0 is wrong.

    With `build`, what it needs in that night by the kernels of another bundle.
    """
    multiple = 1.0
    for planted in (*PLANTED, BUSY):
        is_build = any(build_.night == planted.since for build_ in BUILDS)
        at = BUILDS[build].night if build is not None and is_build else night
        if planted.holds(case, machine, at):
            multiple *= planted.factor
    return multiple
