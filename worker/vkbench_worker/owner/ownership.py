"""Who has a device: one supervisor of a host, whatever runners it starts, and the job on it.

A runner's own lock goes with the runner. This one lasts, so that a second worker which waits for
the device cannot slip in between a crash and the fresh runner.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, Final

from vkbench.job import Job, Outcome
from vkbench.process import system
from vkbench.result import Result
from vkbench.settings import Settings
from vkbench_worker.owner.marker import Marker
from vkbench_worker.protocol import owner_path

LOOK_SECONDS: Final = 0.1  # between looks whether the device is free


class Ownership:
    """The lock and the marker of a device, from the first runner to the end of its supervisor."""

    def __init__(self, settings: Settings, origin: str) -> None:
        self._settings = settings
        self._origin = origin  # where job ids come from
        self._lock: IO[str] | None = None
        self._marker: Marker | None = None
        self._left: Result | None = None  # the attempt that a predecessor died in

    @property
    def is_held(self) -> bool:
        """Whether the device is this supervisor's."""
        return self._lock is not None

    def take(self, device: str) -> bool:
        """Take a device, by its key; False while another supervisor has it."""
        self._lock = _lock_owner(owner_path(self._settings, device))
        if self._lock is None:
            return False
        self._marker = Marker.of(self._settings, device, self._origin)
        self._left = _read_left(self._marker)
        self._marker.clear()
        return True

    def await_release(self, device: str, leaving: Callable[[], bool]) -> None:
        """Wait until no supervisor has a device, or `leaving` comes true."""
        while not leaving():
            if owner := _lock_owner(owner_path(self._settings, device)):
                owner.close()
                return
            time.sleep(LOOK_SECONDS)

    def take_left(self) -> Result | None:
        """The attempt that a predecessor died in, once."""
        left, self._left = self._left, None
        return left

    def mark(self, job: Job) -> None:
        """Note that a job is on the device now."""
        assert self._marker
        self._marker.write(job)

    def clear_mark(self) -> None:
        """Note that no job is on the device."""
        if self._marker:
            self._marker.clear()

    def close(self) -> None:
        """Give the device back."""
        if self._marker:
            self._marker.close()
        if self._lock:
            self._lock.close()
        self._marker = self._lock = None


def _read_left(marker: Marker) -> Result | None:
    if not (marked := marker.read()):
        return None
    job, token = marked
    died = Result(job=job, token=token, outcome=Outcome.WORKER_DIED, started=time.time())
    return replace(died, reason="the worker ended while this job was on the device")


def _lock_owner(path: Path) -> IO[str] | None:
    """The locked file, to be kept open; None while another supervisor has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    owner = path.open("a")
    if system.lock(owner, waits=False):
        return owner
    owner.close()
    return None
