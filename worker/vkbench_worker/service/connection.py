"""A worker's Redis connection, which repeats failed calls until they work or never can."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from redis.exceptions import RedisError, ResponseError

from vkbench.process import log

T = TypeVar("T")

_log = logging.getLogger(__name__)

LONGEST_PAUSE_SECONDS = 1.0
# How errors begin that pass: the disk is full, a script runs, another server is about to take over.
_PASSING = ("MISCONF", "BUSY", "NOREPLICAS", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "UNKILLABLE")


def persist(
    action: Callable[[], T],
    what: str,
    gave_up: Callable[[], bool] = lambda: False,
    *,
    until_mended: bool = False,
) -> T:
    """Do `action` until Redis does its part.

    Raises its last error once `gave_up`, and at once one that `is_lasting`, save `until_mended`.
    """
    pause = 0.05
    while True:
        try:
            return action()
        except RedisError as error:
            if gave_up() or (is_lasting(error) and not until_mended):
                raise
            if pause == LONGEST_PAUSE_SECONDS:
                log.warn(_log, "redis_awaited", action=what, error=error)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def is_lasting(error: RedisError) -> bool:
    """Whether Redis would say the same again, as of a key that holds another type.

    redis-py has a class for the errors that it knows to pass: the memory is full, Redis is loading.
    """
    return type(error) is ResponseError and not any(word in str(error) for word in _PASSING)
