"""What can go wrong between the scheduler and its services: one error for all of Redis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis.exceptions import RedisError

from vkbench.errors import ServiceUnreachable, VkbenchError


class BrokerUnreachable(ServiceUnreachable):
    """Redis cannot be reached."""


class AlertFailed(VkbenchError):
    """An alert could not be delivered."""


@contextmanager
def reach_redis() -> Iterator[None]:
    """Raise BrokerUnreachable for every error of Redis."""
    try:
        yield
    except RedisError as error:
        raise BrokerUnreachable(f"Redis cannot be used: {error}") from error
