"""The stream of results; an entry is deleted once it is stored in SQL."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import starmap
from typing import NamedTuple, cast

from redis import Redis
from redis.exceptions import ResponseError

from vkbench import wire
from vkbench.errors import VkbenchError
from vkbench.result import Result
from vkbench.signing import NO_KEYS, Keys
from vkbench_scheduler.queue.connection import reached

MOST_AT_ONCE = 500
BLOCK_MILLISECONDS = 500
ABANDONED_SECONDS = 5  # entries that a collector read and did not store by then go to another
_LOOK_SECONDS = 2.0

_log = logging.getLogger(__name__)

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
        with reached():
            self._begin()
            try:
                return self._left_over() or self._fresh()
            except ResponseError as error:
                if "NOGROUP" not in str(error):
                    raise
                self._began = False  # Redis lost its data: create the group again
                return []

    def done(self, entries: Sequence[bytes]) -> None:
        """Delete stored entries in one step: one deleted by half would hold up the reconciler."""
        with reached(), self._redis.pipeline(transaction=True) as pipe:
            pipe.xack(wire.RESULTS, wire.RESULTS_GROUP, *entries)
            pipe.xdel(wire.RESULTS, *entries)
            pipe.execute()

    def _begin(self) -> None:
        if self._began:
            return
        with suppress(ResponseError):  # BUSYGROUP: it is there
            self._redis.xgroup_create(wire.RESULTS, wire.RESULTS_GROUP, id="0", mkstream=True)
        self._began = True

    def _fresh(self) -> list[Entry]:
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
        return [_entry(self._keys, *item) for item in items]

    def _forget_the_dead(self) -> None:
        for consumer in self._redis.xinfo_consumers(wire.RESULTS, wire.RESULTS_GROUP):
            name = consumer["name"].decode()
            quiet = consumer["idle"] > 6 * ABANDONED_SECONDS * 1000 and not consumer["pending"]
            if quiet and name != self._consumer:
                self._redis.xgroup_delconsumer(wire.RESULTS, wire.RESULTS_GROUP, name)


def on_their_way(redis: Redis, keys: Keys = NO_KEYS) -> set[tuple[int, int]]:
    """(job, token) of results that are in the stream: unread, or read and not yet in SQL."""
    with reached():
        entries = cast(list[Raw], redis.xrange(wire.RESULTS))
    results = [entry.result for entry in starmap(partial(_entry, keys), entries) if entry.result]
    return {(result.job, result.token) for result in results}


def _entry(keys: Keys, name: bytes, fields: dict[bytes, bytes] | None) -> Entry:
    body = (fields or {}).get(wire.RESULT_FIELD.encode(), b"")
    try:
        return Entry(name, body, wire.unpack(body, Result, keys))
    except VkbenchError as error:
        return Entry(name, body, None, str(error))
