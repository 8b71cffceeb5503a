"""Which job is on a device, kept in a file that outlives a worker killed at any moment."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from vkbench.job import Job
from vkbench.settings import Settings
from vkbench_worker.closing import Closing

_SIZE = 24  # one write of this size at offset 0 is seen whole or not at all
_EMPTY = b" " * _SIZE


class Marker(Closing):
    """A file of 24 bytes: job id and token, or blanks."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    @classmethod
    def of(cls, settings: Settings, device: str, origin: str) -> Marker:
        """The marker of a device (by key) for the jobs of one origin."""
        # Job ids are unique within one database only.
        shortened = hashlib.sha256(origin.encode()).hexdigest()[:8]
        return cls(settings.data / "markers" / f"{device}.{shortened}")

    def close(self) -> None:
        """Close the file; what it says stays."""
        os.close(self._file)

    def write(self, job: Job) -> None:
        """Note that this job is on the device now."""
        os.pwrite(self._file, f"{job.id:15d} {job.token:8d}".encode(), 0)

    def clear(self) -> None:
        """Note that no job is on the device."""
        os.pwrite(self._file, _EMPTY, 0)

    def read(self) -> tuple[int, int] | None:
        """(job, token) that was on the device, None if there was none."""
        words = os.pread(self._file, _SIZE, 0).split()
        try:
            job, token = map(int, words)
        except ValueError:
            return None
        return job, token
