"""What can go wrong around a device: the worker's errors."""

from __future__ import annotations

from vkbench.errors import VkbenchError
from vkbench.job import AWAITED


class RunnerFailed(VkbenchError):
    """The runner did not start."""


class BundleUnavailable(VkbenchError):
    """The bundle that a job names cannot be had, as a scheduler or this host says."""


class Awaited(VkbenchError):
    """What a job needs is not here yet: the job goes back without a try."""

    what = "it"

    def __init__(self, sha: str, why: str) -> None:
        super().__init__(f"{self.what} {sha[:12]}{AWAITED}{why}")
        self.sha = sha


class BundleAwaited(Awaited):
    """A bundle is neither here nor in Redis, and no scheduler has said that it does not come."""

    what = "bundle"


class BuildAwaited(Awaited):
    """A build is not here, and where builds lie does not give it."""

    what = "build"


class NoRoom(VkbenchError):
    """The model does not fit on the device, or its file on the disk."""
