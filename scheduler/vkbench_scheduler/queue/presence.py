"""Presence: which workers serve which devices; sends them cancelled runs and bundles."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, cast

from redis import Redis

from vkbench import log, wire
from vkbench.wire import Announcement, Lease
from vkbench_scheduler.metrics import counters
from vkbench_scheduler.queue.connection import reached

CANCEL_SECONDS = 3600  # far beyond the life of a message in a short queue
BUNDLE_SECONDS = 3600
REFUSAL_SECONDS = 10  # workers are told of a bundle that cannot be brought, and may ask again
MOST_WANTED = 16  # bundles looked for at once

_HASH = re.compile(rb"[0-9a-f]{64}")
RECALL_SECONDS = 10  # said again each second

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Presence:
    """What Redis knows of the workers."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    def redis_run(self) -> str:
        """Id of the running Redis server; it changes at a restart, which may lose all keys."""
        with reached():
            return str(self._redis.info("server")["run_id"])

    def announcements(self) -> list[Announcement]:
        """The devices that a worker serves now."""
        with reached():
            keys = _members(self._redis, wire.DEVICES)
            words = self._redis.mget([wire.announcement_of(key) for key in keys]) if keys else []
        return _understood(words, Announcement)

    def leases(self, devices: Sequence[str]) -> dict[str, Lease]:
        """What the workers of these devices hold now; a device whose worker is gone has none."""
        with reached():
            keys = [wire.lease_of(device) for device in devices]
            words = self._redis.mget(keys) if keys else []
        read = {
            device: _understood([word], Lease) for device, word in zip(devices, words, strict=True)
        }
        return {device: lease[0] for device, lease in read.items() if lease}

    def taking(self, devices: Sequence[str]) -> list[str]:
        """Those of these devices whose workers take jobs at this moment."""
        leases = self.leases(devices)
        return [key for key in devices if key in leases and not leases[key].leaving]

    def cancel(self, runs: Iterable[int]) -> None:
        """Have workers skip and end the jobs of these runs."""
        with reached(), self._redis.pipeline(transaction=False) as pipe:
            for run in runs:
                pipe.set(wire.cancel_of(run), 1, ex=CANCEL_SECONDS)
            pipe.execute()

    def recall(self, devices: Iterable[str]) -> None:
        """Have the workers of these devices hand back what they hold, for a few seconds."""
        with reached(), self._redis.pipeline(transaction=False) as pipe:
            for device in devices:
                pipe.set(wire.recall_of(device), 1, ex=RECALL_SECONDS)
            pipe.execute()

    def end_recall(self, devices: Iterable[str]) -> None:
        """Let the workers of these devices keep what they get."""
        with reached():
            self._redis.delete(*map(wire.recall_of, devices))

    def wanted(self) -> list[str]:
        """Hashes of bundles that workers lack; what is no hash is thrown away."""
        with reached():
            members = cast(set[bytes], self._redis.smembers(wire.WANTED))
            if junk := [member for member in members if not _HASH.fullmatch(member)]:
                log.warn(_log, "wanted_refused", members=len(junk))
                self._redis.srem(wire.WANTED, *junk)
        return sorted(member.decode() for member in members.difference(junk))[:MOST_WANTED]

    def bring(self, sha: str, archive: bytes) -> None:
        """Put a bundle into Redis for the workers."""
        with reached(), self._redis.pipeline(transaction=True) as pipe:
            pipe.set(wire.bundle_of(sha), archive, ex=BUNDLE_SECONDS)
            pipe.srem(wire.WANTED, sha)
            pipe.execute()

    def refuse(self, sha: str, reason: str) -> None:
        """Tell the workers why a bundle does not come: their jobs fail with this reason."""
        with reached(), self._redis.pipeline(transaction=True) as pipe:
            pipe.srem(wire.WANTED, sha)
            pipe.set(wire.refusal_of(sha), reason, ex=REFUSAL_SECONDS)
            pipe.execute()


def _understood(words: Iterable[Any], kind: type[T]) -> list[T]:
    records = []
    for word in filter(None, words):
        try:
            records.append(wire.decode(word, kind))
        except wire.MalformedMessage as error:  # from a worker of another version
            counters.REFUSED.labels("announcement").inc()
            log.warn(_log, "word_refused", error=error)
    return records


def _members(redis: Redis, key: str) -> list[str]:
    return sorted(
        member.decode(errors="replace") for member in cast(set[bytes], redis.smembers(key))
    )
