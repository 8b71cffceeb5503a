"""Presence: which workers serve which devices; sends them cancelled runs and bundles."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from redis import Redis
from redis.client import Pipeline

from vkbench import log, wire
from vkbench.errors import VkbenchError
from vkbench.keys import read_keys
from vkbench.redis_client import connect
from vkbench.settings import Settings
from vkbench.signing import NO_KEYS, Keys, seal, spoken, unseal
from vkbench.wire import Announcement, Lease, Unfit
from vkbench_scheduler.metrics import counters
from vkbench_scheduler.queue.connection import reached

CANCEL_SECONDS = 3600  # far beyond the life of a message in a short queue
BUNDLE_SECONDS = 3600
REFUSAL_SECONDS = 10  # workers read why a bundle is refused for so long; then they may ask again
MOST_WANTED = 16  # bundles looked for at once

_HASH = re.compile(rb"[0-9a-f]{64}")
RECALL_SECONDS = 10  # said again each second

_log = logging.getLogger(__name__)


class Presence:
    """What Redis knows of the workers."""

    def __init__(self, redis: Redis, keys: Keys = NO_KEYS) -> None:
        self._redis = redis
        self._keys = keys
        self._wishes: dict[str, list[bytes]] = {}  # bundle -> members of the set that ask for it
        self.unfit: Mapping[str, str] = {}  # device -> why its worker gets nothing, as of now
        self.protocols: Mapping[str, int] = {}  # device -> what its worker and this host speak

    def redis_run(self) -> str:
        """Id of the running Redis server; it changes at a restart, which may lose all keys."""
        with reached():
            return str(self._redis.info("server")["run_id"])

    def announcements(self) -> list[Announcement]:
        """The devices that a worker serves now, and speaks a protocol of this scheduler."""
        with reached():
            devices = [member.decode() for member in _members(self._redis, wire.DEVICES)]
            keys = [wire.announcement_of(device) for device in devices]
            words = self._redis.mget(keys) if keys else []
        unfit: dict[str, str] = {}
        protocols: dict[str, int] = {}
        announced = []
        for device, word in zip(devices, words, strict=True):
            if not word:
                continue
            try:
                said = wire.unpack(word, Announcement, self._keys, device)
                protocols[device] = self._protocol_with(said)
            except VkbenchError as error:
                counters.REFUSED.labels("announcement").inc()
                unfit[device] = f"its worker cannot be used: {error}"
                continue
            if said.refused:
                unfit[device] = f"its worker refuses jobs: {said.refused}"
            announced.append(said)
        self._note(unfit)
        self.protocols = protocols
        return announced

    def _protocol_with(self, announcement: Announcement) -> int:
        """The newest protocol that a worker and this scheduler speak."""
        common = set(announcement.speaks) & set(self._keys.protocols)
        if not common:
            theirs, ours = spoken(announcement.speaks), spoken(self._keys.protocols)
            raise Stranger(f"it speaks protocol {theirs}, the scheduler {ours}")
        return max(common)

    def _note(self, unfit: Mapping[str, str]) -> None:
        """Log what is new, and put it into Redis, where `vkbench status` reads it."""
        for device, reason in unfit.items():
            if self.unfit.get(device) != reason:
                log.warn(_log, "device_unfit", device=device, reason=reason)
        if unfit or self.unfit:
            word = wire.pack(Unfit(devices=unfit), self._keys)
            with reached():
                self._redis.set(wire.UNFIT, word, ex=wire.ANNOUNCE_SECONDS)
        self.unfit = unfit

    def leases(self, devices: Sequence[str]) -> dict[str, Lease]:
        """What the workers of these devices hold now; a device whose worker is gone has none."""
        with reached():
            keys = [wire.lease_of(device) for device in devices]
            words = self._redis.mget(keys) if keys else []
        read = {
            device: self._lease(device, word) for device, word in zip(devices, words, strict=True)
        }
        return {device: lease for device, lease in read.items() if lease}

    def _lease(self, device: str, word: bytes | str | None) -> Lease | None:
        try:
            return wire.unpack(word, Lease, self._keys, device) if word else None
        except VkbenchError as error:
            log.warn(_log, "word_refused", error=error)
            return None

    def taking(self, devices: Sequence[str]) -> list[str]:
        """Those of these devices whose workers take jobs at this moment."""
        leases = self.leases(devices)
        return [key for key in devices if key in leases and not leases[key].leaving]

    def cancel(self, runs: Iterable[int]) -> None:
        """Have workers skip and end the jobs of these runs."""
        with reached(), self._redis.pipeline(transaction=False) as pipe:
            for run in runs:
                word = seal(b"1", wire.cancel_subject(run), self._keys)
                pipe.set(wire.cancel_of(run), word, ex=CANCEL_SECONDS)
            pipe.execute()

    def recall(self, devices: Iterable[str]) -> None:
        """Have the workers of these devices hand back what they hold, for a few seconds."""
        with reached(), self._redis.pipeline(transaction=False) as pipe:
            for device in devices:
                word = seal(b"1", wire.recall_subject(device), self._keys)
                pipe.set(wire.recall_of(device), word, ex=RECALL_SECONDS)
            pipe.execute()

    def end_recall(self, devices: Iterable[str]) -> None:
        """Let the workers of these devices keep what they get."""
        with reached():
            self._redis.delete(*map(wire.recall_of, devices))

    def wanted(self) -> list[str]:
        """Hashes of bundles that workers lack; what is no worker's wish is thrown away."""
        self._wishes = {}
        with reached():
            for member in _members(self._redis, wire.WANTED):
                try:
                    sha = unseal(member, wire.WISH, self._keys)
                    if not _HASH.fullmatch(sha):
                        raise wire.MalformedMessage("a wish is no hash")
                    self._wishes.setdefault(sha.decode(), []).append(member)
                except VkbenchError as error:
                    log.warn(_log, "wish_refused", error=error)
                    self._redis.srem(wire.WANTED, member)
        return sorted(self._wishes)[:MOST_WANTED]

    def _forget_wish(self, pipe: Pipeline, sha: str) -> None:
        pipe.srem(wire.WANTED, *self._wishes.pop(sha, [sha.encode()]))

    def bring(self, sha: str, archive: bytes) -> None:
        """Put a bundle into Redis for the workers."""
        with reached(), self._redis.pipeline(transaction=True) as pipe:
            pipe.set(wire.bundle_of(sha), archive, ex=BUNDLE_SECONDS)
            self._forget_wish(pipe, sha)
            pipe.execute()

    def refuse(self, sha: str, reason: str) -> None:
        """Tell the workers why a bundle does not come: their jobs fail with this reason."""
        with reached(), self._redis.pipeline(transaction=True) as pipe:
            self._forget_wish(pipe, sha)
            word = seal(reason.encode(), wire.refusal_subject(sha), self._keys)
            pipe.set(wire.refusal_of(sha), word, ex=REFUSAL_SECONDS)
            pipe.execute()


def unfit_devices(ours: Settings) -> Mapping[str, str]:
    """Devices that a scheduler cannot use now, and why."""
    keys = read_keys(ours)
    with connect(ours.redis) as redis, reached():
        word = redis.get(wire.UNFIT)
    return wire.unpack(word, Unfit, keys).devices if isinstance(word, bytes) else {}


class Stranger(VkbenchError):
    """A worker speaks no protocol of this scheduler."""


def _members(redis: Redis, key: str) -> list[bytes]:
    return sorted(cast(set[bytes], redis.smembers(key)))
