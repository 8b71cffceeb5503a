"""Redis as the scheduler uses it: every failure is one error, every call ends within seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from vkbench_scheduler.errors import BrokerUnreachable


def connect(url: str) -> Redis:
    """A client; nothing is sent yet."""
    return Redis.from_url(
        url,
        socket_timeout=5,
        socket_connect_timeout=5,
        socket_keepalive=True,
        health_check_interval=5,
        retry=Retry(NoBackoff(), 1),
    )


@contextmanager
def reached() -> Iterator[None]:
    """Say BrokerUnreachable for whatever Redis refuses."""
    try:
        yield
    except RedisError as error:
        raise BrokerUnreachable(f"Redis cannot be used: {error}") from error
