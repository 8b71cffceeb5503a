"""Reads Redis as untrusted input: within bounds, and deletes what is no message.

A key of another type than vkbench gives it is deleted, and so are words that are too long and
members of sets that no worker writes: each is read once. `Oddities` remembers them for the
operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from redis import Redis
from redis.exceptions import NoPermissionError, RedisError, ResponseError

from vkbench.words.units import count_of
from vkbench.words.visible import visible
from vkbench_scheduler.errors import BrokerUnreachable
from vkbench_scheduler.metrics import counters
from vkbench_scheduler.queue.oddities import ODDITIES

MOST_WORD_BYTES: Final = 1 << 20  # of an announcement or a lease
MOST_MEMBERS: Final = 10_000  # of a set that are looked at
_AT_ONCE: Final = 1000  # members that one command removes


@contextmanager
def reach_redis() -> Iterator[None]:
    """Raise BrokerUnreachable for every error of Redis."""
    try:
        yield
    except RedisError as error:
        raise BrokerUnreachable(f"Redis cannot be used: {error}") from error


def note(place: str, what: str) -> None:
    """Count an oddity in Redis, and report it to the operator."""
    counters.REFUSED.labels("strange").inc()
    ODDITIES.note(place, what)


def is_of_other_type(error: object) -> bool:
    """Whether Redis says that a key holds another type than ours, also by way of Celery."""
    return isinstance(error, Exception) and "WRONGTYPE" in str(error)


def clear(redis: Redis, key: str, what: str = "it holds another type of value") -> None:
    """Delete a key that holds nothing of ours."""
    note(key, f"{what}: deleted")
    with reach_redis():
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
    with reach_redis():
        answers, now = _beginnings(redis, keys)
    contents = [_word(redis, key, answer) for key, answer in zip(keys, answers, strict=True)]
    return contents, now


def members(redis: Redis, key: str, is_ours: Callable[[bytes], bool]) -> list[bytes]:
    """The well-formed members of a set; others are removed, and so is a key that is no set."""
    try:
        all_members = cast(set[bytes], redis.smembers(key))
    except ResponseError as error:
        if not is_of_other_type(error):
            raise
        clear(redis, key)
        return []
    strange = [member for member in all_members if not is_ours(member)]
    if strange:
        remove(redis, key, strange)
        example = visible(repr(strange[0][:40]))
        note(key, f"{count_of(len(strange), 'strange member')}, as {example}: removed")
    own_members = sorted(all_members.difference(strange))
    if len(own_members) > MOST_MEMBERS:
        note(key, f"{len(own_members)} members: {MOST_MEMBERS} are looked at")
    return own_members[:MOST_MEMBERS]


def remove(redis: Redis, key: str, members: Sequence[bytes]) -> None:
    """Remove members of a set, however many."""
    for first in range(0, len(members), _AT_ONCE):
        redis.srem(key, *members[first : first + _AT_ONCE])


def _beginnings(redis: Redis, keys: Sequence[str]) -> tuple[list[object], float]:
    """Read only the first bytes of each key, since values can be as large as Redis' memory."""
    with redis.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.getrange(key, 0, MOST_WORD_BYTES)
        pipe.time()
        replies: list[Any] = pipe.execute(raise_on_error=False)
    answers: list[object] = replies[:-1]
    seconds, microseconds = replies[-1]
    if any(isinstance(answer, NoPermissionError) for answer in answers):
        answers = list(redis.mget(keys))  # users of Redis as older versions set them up
    return answers, seconds + microseconds / 1e6


def _word(redis: Redis, key: str, answer: object) -> bytes | None:
    if is_of_other_type(answer):
        clear(redis, key)
        return None
    if isinstance(answer, Exception):
        with reach_redis():
            raise answer
    word = cast(bytes | None, answer)
    if word and len(word) > MOST_WORD_BYTES:
        clear(redis, key, f"over {MOST_WORD_BYTES} bytes")
        return None
    return word or None
