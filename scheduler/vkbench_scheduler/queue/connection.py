"""Redis as the scheduler uses it: every failure is one error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis.exceptions import RedisError

from vkbench_scheduler.errors import BrokerUnreachable


@contextmanager
def reach_redis() -> Iterator[None]:
    """Raise BrokerUnreachable for every error of Redis."""
    try:
        yield
    except RedisError as error:
        raise BrokerUnreachable(f"Redis cannot be used: {error}") from error
