"""Redis for scheduler and workers: clients whose calls end within seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from vkbench.errors import ServiceUnreachable, UsageError
from vkbench.messages.stamps import Stamps, skew
from vkbench.messages.urls import REDIS_FORMS, hide_password, redis_place

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
    options = {**SOCKET_OPTIONS, **tls_options(url)}
    try:
        return Redis.from_url(without_tls_options(url), retry=Retry(NoBackoff(), 1), **options)
    except ValueError:  # its text may hold a part of the password
        raise UsageError(f"malformed Redis URL '{hide_password(url)}': {REDIS_FORMS}") from None


def clock_skew(url: str) -> int:
    """By how many seconds this host's clock is ahead of that of Redis; 0 if by few.

    ServiceUnreachable if Redis does not answer, UsageError if its URL is malformed.
    """
    try:
        with connect(url) as redis:
            return skew(Stamps(redis).next().sent)
    except RedisError as error:
        raise ServiceUnreachable(f"Redis cannot be used: {error}") from error


def tls_options(url: str) -> dict[str, Any]:
    """What redis-py and Celery need so that `rediss://` verifies the server; {} without TLS.

    Both take the same names. Neither asks for all of this by itself: Celery verifies nothing.
    """
    redis_place(url)
    parts = urlsplit(url)
    if parts.scheme != "rediss":
        return {}
    options = {name: value for name, value in parse_qsl(parts.query) if name.startswith("ssl_")}
    verified = {"ssl_cert_reqs": "required", "ssl_check_hostname": "true"}
    for name, value in verified.items():
        if options.get(name, value).lower() != value:
            raise UsageError(
                f"{name}={options[name]} in the URL of Redis: rediss:// always verifies"
            )
    return {**options, "ssl_cert_reqs": "required", "ssl_check_hostname": True}


def without_tls_options(url: str) -> str:
    """The URL for a client that is given `tls_options`."""
    parts = urlsplit(url)
    kept = [item for item in parse_qsl(parts.query) if not item[0].startswith("ssl_")]
    return urlunsplit(parts._replace(query=urlencode(kept)))
