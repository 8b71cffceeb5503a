"""Reads what lies in Redis as anyone may have put it there: within bounds, and never for long.

A key of another type than vkbench gives it is deleted, and so are words that are too long and
members of sets that no worker writes: each is read once. `Oddities` remembers them for the
operator.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, Final, cast

from redis import Redis
from redis.exceptions import NoPermissionError, ResponseError

from vkbench import log
from vkbench.units import counted
from vkbench.visible import visible
from vkbench_scheduler.metrics import counters
from vkbench_scheduler.queue.connection import reached

MOST_WORD_BYTES: Final = 1 << 20  # of an announcement or a lease
MOST_MEMBERS: Final = 10_000  # of a set that are looked at
MOST_PLACES: Final = 20  # strange places in Redis that an operator is told of at a time
TOLD_SECONDS: Final = 600.0  # for how long an operator is told of a place
UNTOLD_SECONDS: Final = 86_400.0  # between two alerts about one place
SILENT_SECONDS: Final = 60.0  # between two lines of the log about one place
_AT_ONCE: Final = 1000  # members that one command removes

_log = logging.getLogger(__name__)


class Oddities:
    """What was found in Redis that neither a worker nor a scheduler of this fleet writes."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, float]] = {}  # place -> what, and when (monotonic)
        self._said: dict[str, float] = {}  # place -> when the log said so last
        self._told: dict[str, float] = {}  # place -> when the alert channels heard of it last
        self._lock = Lock()  # several threads read Redis

    def note(self, place: str, what: str) -> None:
        """Count it, log it now and then, and tell it for a while."""
        counters.REFUSED.labels("strange").inc()
        now = time.monotonic()
        with self._lock:
            self._forget(now)
            if place in self._found or len(self._found) < MOST_PLACES:
                self._found[place] = (what, now)
            silent = now - self._said.get(place, float("-inf")) < SILENT_SECONDS
            if not silent and len(self._said) < MOST_PLACES:
                self._said[place] = now
                log.warn(_log, "redis_strange", key=place, found=what)

    def lately(self) -> Mapping[str, str]:
        """Place in Redis -> what was found there within TOLD_SECONDS."""
        with self._lock:
            self._forget(time.monotonic())
            return {place: what for place, (what, _) in self._found.items()}

    def untold(self) -> Mapping[str, str]:
        """The lately found places that the alert channels have not heard of for a day."""
        told = self._told
        now = time.monotonic()
        return {
            place: what
            for place, what in self.lately().items()
            if now - told.get(place, float("-inf")) > UNTOLD_SECONDS
        }

    def note_told(self, places: Iterable[str]) -> None:
        """Note that the alert channels have heard of these."""
        now = time.monotonic()
        told = {place: at for place, at in self._told.items() if now - at < UNTOLD_SECONDS}
        self._told = told | dict.fromkeys(places, now)

    def _forget(self, now: float) -> None:
        old = [place for place, (_, at) in self._found.items() if now - at > TOLD_SECONDS]
        for place in old:
            del self._found[place]
        for place in [place for place, at in self._said.items() if now - at > SILENT_SECONDS]:
            del self._said[place]


ODDITIES = Oddities()  # of this process: all its threads meet the same Redis


def is_of_other_type(error: object) -> bool:
    """Whether Redis says that a key holds another type than ours, also by way of Celery."""
    return isinstance(error, Exception) and "WRONGTYPE" in str(error)


def clear(redis: Redis, key: str, what: str = "it holds another type of value") -> None:
    """Delete a key that holds nothing of ours."""
    ODDITIES.note(key, f"{what}: deleted")
    with reached():
        redis.delete(key)


def clear_lists(redis: Redis, keys: Iterable[str]) -> None:
    """Delete those of these keys that hold no list."""
    for key in keys:
        try:
            redis.llen(key)
        except ResponseError as error:
            if not is_of_other_type(error):
                raise
            clear(redis, key)


def words(redis: Redis, keys: Sequence[str]) -> tuple[list[bytes | None], float]:
    """What keys hold, and the time by the clock of Redis.

    None for those that are not there, or hold no message.
    """
    if not keys:
        return [], 0.0
    with reached():
        answers, now = _beginnings(redis, keys)
    found = [_word(redis, key, answer) for key, answer in zip(keys, answers, strict=True)]
    return found, now


def members(redis: Redis, key: str, is_ours: Callable[[bytes], bool]) -> list[bytes]:
    """The members of a set that may be ours; the others are removed, the set too if it is none."""
    try:
        found = cast(set[bytes], redis.smembers(key))
    except ResponseError as error:
        if not is_of_other_type(error):
            raise
        clear(redis, key)
        return []
    strange = [member for member in found if not is_ours(member)]
    if strange:
        remove(redis, key, strange)
        example = visible(repr(strange[0][:40]))
        ODDITIES.note(key, f"{counted(len(strange), 'strange member')}, as {example}: removed")
    ours = sorted(found.difference(strange))
    if len(ours) > MOST_MEMBERS:
        ODDITIES.note(key, f"{len(ours)} members: {MOST_MEMBERS} are looked at")
    return ours[:MOST_MEMBERS]


def remove(redis: Redis, key: str, members: Sequence[bytes]) -> None:
    """Remove members of a set, however many."""
    for first in range(0, len(members), _AT_ONCE):
        redis.srem(key, *members[first : first + _AT_ONCE])


def _beginnings(redis: Redis, keys: Sequence[str]) -> tuple[list[object], float]:
    """The first bytes of each key: a word may be as long as Redis has memory."""
    with redis.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.getrange(key, 0, MOST_WORD_BYTES)
        pipe.time()
        found: list[Any] = pipe.execute(raise_on_error=False)
    answers: list[object] = found[:-1]
    seconds, microseconds = found[-1]
    if any(isinstance(answer, NoPermissionError) for answer in answers):
        answers = list(redis.mget(keys))  # users of Redis as older versions set them up
    return answers, seconds + microseconds / 1e6


def _word(redis: Redis, key: str, answer: object) -> bytes | None:
    if is_of_other_type(answer):
        clear(redis, key)
        return None
    if isinstance(answer, Exception):
        with reached():
            raise answer
    word = cast(bytes | None, answer)
    if word and len(word) > MOST_WORD_BYTES:
        clear(redis, key, f"over {MOST_WORD_BYTES} bytes")
        return None
    return word or None
