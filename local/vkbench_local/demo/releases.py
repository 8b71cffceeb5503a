"""The demonstration's program: releases of a made-up library, one of which made a case slower.

Its times follow from the recorded ones of kernels, as those of simulated devices do, and its name
says that it is simulated. Its file is a name and a hash: no device could run it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property

from vkbench.programs.build import Build, BuildFile
from vkbench.result import HOT
from vkbench_local.demo.lab import ANY
from vkbench_local.demo.recording import RecordedCase

PROGRAM = "simulated-library"
SLOWER = 1.3  # than our kernels, all its cases
CASES = (
    *("mul_mat_vec/q4_0/m4096_n1_k14336", "mul_mat_vec/q8_0/m4096_n1_k14336"),
    *("layer_norm/f32/b1_c1_h16384_w8192", "add/f32/b1_c1_h4096_w4096"),
)


@dataclass(frozen=True, kw_only=True)
class Release:
    """A build of the library, the night since which it runs, and what it made slower for good."""

    name: str
    night: int
    cases: str = ""  # glob
    factor: float = 1.0

    @property
    def build(self) -> Build:
        """Its build, of a file that is made up."""
        text = f"no library: {PROGRAM} {self.name}"
        sha = hashlib.sha256(text.encode()).hexdigest()
        file = BuildFile(path="libsimulated.so", sha=sha, nbytes=len(text))
        return Build(program=PROGRAM, name=self.name, files=(file,))

    @cached_property
    def sha(self) -> str:
        """The hash of its build."""
        return self.build.sha


WORDS = f"a release of {PROGRAM} that makes a product 25 % slower on all devices"
RELEASES = (
    Release(name="v1.0", night=16),
    Release(name="v1.1", night=30),
    Release(name="v1.2", night=37, cases="mul_mat_vec/q8_0/*", factor=1.25),
    Release(name="v1.3", night=50),
)


def release_of(night: int) -> Release | None:
    """The release that runs in a night."""
    return next((release for release in reversed(RELEASES) if release.night <= night), None)


def find_release(sha: str) -> Release | None:
    """The release whose build has a hash; None where it is a bundle's."""
    return next((release for release in RELEASES if release.sha == sha), None)


def computed_by(release: Release, recorded: RecordedCase) -> RecordedCase:
    """What a case that was recorded needs by a release, on the recorded device."""
    factor = SLOWER
    for made in RELEASES[: RELEASES.index(release) + 1]:
        factor *= made.factor if fnmatchcase(recorded.case, made.cases) else 1.0
    timings = [
        replace(timing, seconds=timing.seconds * factor, mad=timing.mad * factor)
        for timing in recorded.timings
        if timing.metric == HOT
    ]
    return replace(recorded, variant=PROGRAM, needs=ANY[-1], timings=tuple(timings))
