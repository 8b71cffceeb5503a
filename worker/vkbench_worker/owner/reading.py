"""Which jobs share a runner, by the files of weights that it may read.

What a runner may read cannot be changed while it runs. The packaged kernels are ours, and their
runner keeps what it was allowed, so that a file starts a runner once. Kernels of other bundles come
from anybody: a runner that does their jobs reads the files of these jobs and no others. It reads
the list of bundles that may run, too, and not a file that took the place of that list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final

from vkbench.job import Job, Mode
from vkbench_shaders.bundle import packaged_sha

Files = frozenset[str]

_ALONE: Final = (Mode.PAIRED, Mode.PEER, Mode.COMPILE)


@dataclass(frozen=True, kw_only=True)
class Group:
    """Jobs that one runner may do, one after the other."""

    jobs: list[Job]
    strange: bool  # whether they run kernels of other bundles

    @property
    def files(self) -> Files:
        """All files of weights that these jobs name."""
        return frozenset[str]().union(*map(_files, self.jobs))

    def readable(self, before: Files) -> Files:
        """The files that a runner of these jobs may read, where the one before could read some."""
        return self.files if self.strange else before | self.files


def first_group(waiting: Iterable[Job]) -> Group:
    """The next jobs that one runner may do: of pairs, peers, builds and drivers one."""
    first, *others = waiting
    strange = _is_strange(first)
    if _is_alone(first):
        return Group(jobs=[first], strange=strange)

    def fits(job: Job) -> bool:
        alike = not strange or _files(job) == _files(first)
        return not _is_alone(job) and _is_strange(job) == strange and alike

    return Group(jobs=[first, *takewhile(fits, others)], strange=strange)


def identity(path: Path | None) -> tuple[int, int] | None:
    """Numbers that differ if another file takes a file's place; None where there is none."""
    try:
        status = path.stat() if path else None
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status else None


def _is_alone(job: Job) -> bool:
    return job.mode in _ALONE or bool(job.builds or job.drivers)


def _is_strange(job: Job) -> bool:
    return any(sha not in ("", packaged_sha()) for sha in job.bundles)


def _files(job: Job) -> Files:
    return frozenset({job.source.path} if job.source else ())
