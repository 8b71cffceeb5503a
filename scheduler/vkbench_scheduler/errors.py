"""What can go wrong between the scheduler and its services."""

from __future__ import annotations

from vkbench.errors import ServiceUnreachable, VkbenchError


class BrokerUnreachable(ServiceUnreachable):
    """Redis cannot be reached."""


class AlertFailed(VkbenchError):
    """An alert could not be delivered."""
