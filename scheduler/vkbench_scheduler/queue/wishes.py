"""Sends workers the bundles that they ask for, or the reason why not."""

from __future__ import annotations

import logging
import re

from redis import Redis
from redis.client import Pipeline

from vkbench.errors import VkbenchError
from vkbench.messages import wire
from vkbench.messages.signing import NO_KEYS, Keys
from vkbench.messages.stamps import Newest, Stamps, check_age
from vkbench.process import log
from vkbench_scheduler.metrics import counters
from vkbench_scheduler.queue import border
from vkbench_scheduler.queue.border import reach_redis

BUNDLE_SECONDS = 3600
MOST_WANTED = 16  # bundles looked for at once
MOST_WISH_BYTES = 1000

_HASH = re.compile("[0-9a-f]{64}")

_log = logging.getLogger(__name__)


class Wishes:
    """The set in Redis in which workers ask for bundles, and the keys that answer them."""

    def __init__(self, redis: Redis, keys: Keys = NO_KEYS) -> None:
        self._redis = redis
        self._keys = keys
        self._stamps = Stamps(redis)
        self._newest = Newest()  # of wishes for each bundle: each is answered once
        self._members: dict[str, list[bytes]] = {}  # bundle -> members of the set that ask for it
        self._numbers: dict[str, int] = {}  # bundle -> the highest number of these

    def list_wanted_bundles(self) -> list[str]:
        """The hashes of bundles that workers lack; other members of the set are removed."""
        self._members, self._numbers = {}, {}
        self._newest.forget()
        refused = []
        with reach_redis():
            members = border.members(
                self._redis, wire.WANTED, lambda member: len(member) <= MOST_WISH_BYTES
            )
            now = self._stamps.next().sent if members else 0.0
            for member in members:
                try:
                    self._hear(member, now)
                except VkbenchError as error:
                    refused.append(member)
                    if len(refused) == 1:
                        log.warn(_log, "wish_refused", error=error)
            border.remove(self._redis, wire.WANTED, refused)
        if refused:
            counters.REFUSED.labels("wish").inc(len(refused))
        return sorted(self._members)[:MOST_WANTED]

    def bring(self, sha: str, archive: bytes) -> None:
        """Put a bundle into Redis for the workers."""
        with reach_redis(), self._redis.pipeline(transaction=True) as pipe:
            pipe.set(wire.bundle_of(sha), archive, ex=BUNDLE_SECONDS)
            self._forget(pipe, sha)
            pipe.execute()

    def refuse(self, sha: str, reason: str) -> None:
        """Tell the workers why a bundle does not come: their jobs fail with this reason."""
        with reach_redis(), self._redis.pipeline(transaction=True) as pipe:
            self._forget(pipe, sha)
            word = wire.say(wire.refusal_subject(sha), self._stamps.next(), self._keys, reason)
            pipe.set(wire.refusal_of(sha), word, ex=wire.REFUSAL_SECONDS)
            pipe.execute()

    def _hear(self, member: bytes, now: float) -> None:
        """Note which bundle a member asks for; VkbenchError if it is no wish, or an old one."""
        word = wire.hear(member, wire.WISH, self._keys)
        sha, number = word.text, word.stamp.number
        if not _HASH.fullmatch(sha):
            raise wire.MalformedMessage("a wish is no hash")
        check_age(word.stamp, now, wire.WISH_SECONDS)
        self._newest.require(sha, word.stamp)
        self._members.setdefault(sha, []).append(member)
        self._numbers[sha] = max(number, self._numbers.get(sha, 0))

    def _forget(self, pipe: Pipeline, sha: str) -> None:
        self._newest.end(sha, self._numbers.get(sha, 0))
        pipe.srem(wire.WANTED, *self._members.pop(sha, [sha.encode()]))
