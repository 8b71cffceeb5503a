"""Waits for Redis and the database when a service starts before them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Annotated

from typer import Option

from vkbench.errors import ServiceUnreachable, UsageError
from vkbench.process import log
from vkbench.settings import Settings

_log = logging.getLogger(__name__)

PATIENCE_SECONDS = 10.0  # at the start of a service; a running one waits as long as it takes

Wait = Annotated[
    float,
    Option(
        min=0.0,
        metavar="SECONDS",
        help="Give up when Redis or the database has not answered for so long.",
    ),
]


def patiently(look: Callable[[], object], seconds: float) -> None:
    """Call `look` until it succeeds; raises its last ServiceUnreachable after `seconds`."""
    end = time.monotonic() + seconds
    has_warned = False
    while True:
        try:
            look()
            return
        except ServiceUnreachable as error:
            if time.monotonic() >= end:
                raise
            if not has_warned:
                log.warn(_log, "service_awaited", seconds=seconds, error=error)
                has_warned = True
        time.sleep(0.5)


def ping_redis(settings: Settings) -> int:
    """By how many seconds this host's clock is ahead of that of Redis; 0 if by few.

    ServiceUnreachable if Redis does not answer, UsageError if its URL is malformed.
    """
    from vkbench.messages.redis_client import clock_skew, tls_options

    if settings.redis_ca and not tls_options(settings.redis):
        raise UsageError("VKBENCH_REDIS_CA is set, but VKBENCH_REDIS does not begin with rediss://")
    return clock_skew(settings.redis)
