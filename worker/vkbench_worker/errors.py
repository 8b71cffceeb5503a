"""What can go wrong around a device: the worker's errors."""

from __future__ import annotations

from vkbench.errors import VkbenchError


class RunnerFailed(VkbenchError):
    """The runner did not start."""


class BundleUnavailable(VkbenchError):
    """The bundle that a job names is neither here nor in Redis."""


class NoRoom(VkbenchError):
    """The model does not fit on the device, or its file on the disk."""
