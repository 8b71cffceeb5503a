"""Redis for scheduler and workers: clients whose calls end within seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from vkbench.errors import UsageError
from vkbench.urls import REDIS_FORMS, redis_place, shown

# How long a call may take, for our own clients and for Celery's: a network that drops packets
# would hold a call for minutes otherwise.
SOCKET_OPTIONS: Final[Mapping[str, float | bool]] = {
    "socket_timeout": 5,
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 5,
}


def connect(url: str) -> Redis:
    """A client; it connects at its first call."""
    redis_place(url)  # refuses malformed URLs
    try:
        return Redis.from_url(url, retry=Retry(NoBackoff(), 1), **SOCKET_OPTIONS)
    except ValueError:  # its text may hold a part of the password
        raise UsageError(f"malformed Redis URL '{shown(url)}': {REDIS_FORMS}") from None
