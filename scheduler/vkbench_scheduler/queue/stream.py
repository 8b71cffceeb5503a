"""The stream of results; an entry is deleted once it is stored in SQL."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import starmap
from typing import NamedTuple, cast

from redis import Redis
from redis.client import Pipeline
from redis.exceptions import NoPermissionError, ResponseError

from vkbench.errors import VkbenchError
from vkbench.messages import wire
from vkbench.messages.signing import NO_KEYS, Keys
from vkbench.result import Result
from vkbench_scheduler.queue.border import clear, is_of_other_type, note, reach_redis

MOST_AT_ONCE = 500
MOST_PARTS = 400  # of so many, that are searched for the results of missing jobs
LAST_MILLISECONDS = 2**53  # of an id: in the year 287,000
BLOCK_MILLISECONDS = 500
ABANDONED_SECONDS = 5  # entries that a collector read and did not store by then go to another
_LOOK_SECONDS = 2.0


Raw = tuple[bytes, dict[bytes, bytes] | None]


class Entry(NamedTuple):
    """A message of the stream."""

    name: bytes
    body: bytes
    result: Result | None  # None: it is no result
    trouble: str = ""  # why not


class ResultStream:
    """One consumer of the group."""

    def __init__(self, redis: Redis, consumer: str, keys: Keys = NO_KEYS) -> None:
        self._redis = redis
        self._keys = keys
        self._consumer = consumer
        self._look_at = 0.0  # when to look for what others left, monotonic
        self._began = False

    def read(self) -> list[Entry]:
        """The next entries, after a short wait; entries that a dead collector left come again."""
        with reach_redis():
            self._begin()
            try:
                return self._left_over() or self._read_new_entries()
            except ResponseError as error:
                if is_of_other_type(error):
                    clear(self._redis, wire.RESULTS)
                elif "NOGROUP" not in str(error):
                    raise
                self._began = False  # Redis lost its data: create the group again
                return []

    def delete_entries(self, entries: Sequence[bytes]) -> None:
        """Delete stored entries in one step: one deleted by half would hold up the reconciler."""
        with reach_redis(), self._redis.pipeline(transaction=True) as pipe:
            pipe.xack(wire.RESULTS, wire.RESULTS_GROUP, *entries)
            pipe.xdel(wire.RESULTS, *entries)
            pipe.execute()

    def _begin(self) -> None:
        if self._began:
            return
        with suppress(ResponseError):  # BUSYGROUP: it is there
            self._redis.xgroup_create(wire.RESULTS, wire.RESULTS_GROUP, id="0", mkstream=True)
        self._began = True

    def _read_new_entries(self) -> list[Entry]:
        answer = self._redis.xreadgroup(
            wire.RESULTS_GROUP,
            self._consumer,
            {wire.RESULTS: ">"},
            count=MOST_AT_ONCE,
            block=BLOCK_MILLISECONDS,
        )
        streams = cast(list[tuple[bytes, list[Raw]]], answer or [])
        return [_entry(self._keys, *item) for _, items in streams for item in items]

    def _left_over(self) -> list[Entry]:
        if time.monotonic() < self._look_at:
            return []
        idle = ABANDONED_SECONDS * 1000
        _, items, *_ = self._redis.xautoclaim(
            wire.RESULTS, wire.RESULTS_GROUP, self._consumer, idle, count=MOST_AT_ONCE
        )
        if not items:
            self._look_at = time.monotonic() + _LOOK_SECONDS
            self._forget_the_dead()
            self._renew()
        return [_entry(self._keys, *item) for item in items]

    def _forget_the_dead(self) -> None:
        for consumer in self._redis.xinfo_consumers(wire.RESULTS, wire.RESULTS_GROUP):
            name: bytes = consumer["name"]  # of any bytes
            quiet = consumer["idle"] > 6 * ABANDONED_SECONDS * 1000 and not consumer["pending"]
            if quiet and name != self._consumer.encode():
                self._redis.xgroup_delconsumer(wire.RESULTS, wire.RESULTS_GROUP, name)

    def _renew(self) -> None:
        """Make the stream anew if it is empty and near its last id, after which adding fails."""

        def look(pipe: Pipeline) -> None:
            last = pipe.xinfo_stream(wire.RESULTS)["last-generated-id"]
            is_spent = int(last.partition(b"-")[0]) > LAST_MILLISECONDS
            is_empty = not pipe.xlen(wire.RESULTS)
            pipe.multi()
            if is_spent and is_empty:
                note(wire.RESULTS, "its last id is far in the future: made anew")
                pipe.delete(wire.RESULTS)

        with suppress(NoPermissionError):  # users of Redis as older versions set them up
            self._redis.transaction(look, wire.RESULTS)


def on_their_way(redis: Redis, keys: Keys = NO_KEYS) -> set[tuple[int, int]]:
    """(job, token) of results that are in the stream: unread, or read and not yet in SQL."""
    with reach_redis():
        entries = starmap(partial(_entry, keys), _entries(redis))
        results = [entry.result for entry in entries if entry.result]
    return {(result.job, result.token) for result in results}


def _entries(redis: Redis) -> Iterator[Raw]:
    """Read the stream, a part at a time."""
    after = "-"
    for _ in range(MOST_PARTS):
        try:
            entries = cast(list[Raw], redis.xrange(wire.RESULTS, min=after, count=MOST_AT_ONCE))
        except ResponseError as error:
            if not is_of_other_type(error):
                raise
            return  # the collector clears it
        yield from entries
        if len(entries) < MOST_AT_ONCE:
            return
        after = f"({entries[-1][0].decode()}"


def _entry(keys: Keys, name: bytes, fields: dict[bytes, bytes] | None) -> Entry:
    body = (fields or {}).get(wire.RESULT_FIELD.encode(), b"")
    try:
        return Entry(name, body, wire.unpack(body, Result, keys))
    except VkbenchError as error:
        return Entry(name, body, None, str(error))
