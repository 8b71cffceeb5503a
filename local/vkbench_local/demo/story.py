"""The script of the demonstration: what makes which kernels slower, faster or wrong, and when."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from vkbench_local.demo.lab import COMPACT, DESKTOP, INTEGRATED, MACHINES, Machine


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
    words: str = ""  # what the pages say was planted

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
DRIVER_NIGHT, HOST_NIGHT = 40, 49
_DRIVER = "a driver that makes attention 16 % and softmax 12 % slower on one device"
_HOST = "a host whose memory became 14 % slower, with the same driver and the same kernels"
PLANTED = (
    Planted(
        cases="rms_norm/*",
        since=22,
        until=45,
        factor=1.22,
        words="a bundle that makes rms_norm 22 % slower on all devices, and one that mends it",
    ),
    Planted(
        cases="mul_mat_vec/q[46]_K/*",
        since=36,
        factor=1.09,
        words="a bundle that makes products of a matrix and a vector 9 % slower on all devices",
    ),
    *(
        Planted(cases=cases, since=DRIVER_NIGHT, factor=factor, machines=(DESKTOP,), words=_DRIVER)
        for cases, factor in (("flash_attn/*", 1.16), ("softmax/f32/*", 1.12))
    ),
    Planted(
        cases="get_rows/q4_0/*",
        since=47,
        factor=0.0,
        machines=(INTEGRATED,),
        words="a bundle whose get_rows is wrong on one device",
    ),
    *(
        Planted(cases=cases, since=HOST_NIGHT, factor=1.14, machines=(COMPACT,), words=_HOST)
        for cases in ("copy/*", "swiglu/*")
    ),
    Planted(
        cases="mul_mat/q[48]_0/*",
        since=52,
        factor=0.93,
        words="a bundle that makes products of matrices 7 % faster on all devices",
    ),
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
