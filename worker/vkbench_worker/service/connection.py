"""Redis as a worker uses it: a call that failed is made again until it works."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from redis.exceptions import RedisError

from vkbench import log

T = TypeVar("T")

_log = logging.getLogger(__name__)

LONGEST_PAUSE_SECONDS = 1.0


def persist(action: Callable[[], T], what: str, gave_up: Callable[[], bool] = lambda: False) -> T:
    """Do `action` until Redis does its part; raises its last error once `gave_up`."""
    pause = 0.05
    while True:
        try:
            return action()
        except RedisError as error:
            if gave_up():
                raise
            if pause == LONGEST_PAUSE_SECONDS:
                log.warn(_log, "redis_awaited", action=what, error=error)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
