"""Presence: which workers serve which devices; sends them cancelled runs and recalls."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from redis import Redis

from vkbench.errors import VkbenchError
from vkbench.messages import wire
from vkbench.messages.keys import read_keys
from vkbench.messages.redis_client import connect
from vkbench.messages.signing import (
    NO_KEYS,
    KeyAwaited,
    Keys,
    Untrusted,
    name_protocols,
    names_of,
    seal,
)
from vkbench.messages.stamps import Newest, Stamp, Stamps, check_age, describe_skew
from vkbench.messages.wire import Announcement, Lease, Unfit
from vkbench.process import log
from vkbench.settings import Settings
from vkbench_scheduler.metrics import counters
from vkbench_scheduler.queue import border
from vkbench_scheduler.queue.announced import Announced
from vkbench_scheduler.queue.border import reach_redis
from vkbench_scheduler.queue.oddities import ODDITIES, OTHER_KEYS

CANCEL_SECONDS = 3600  # far beyond the life of a message in a short queue
MOST_UNFIT = 200  # devices without a usable worker that people are told of at a time
UNTRUSTED_SECONDS = 30.0  # until people hear of it: what a killed worker said lives for a while
REJECTED_SECONDS = 60.0  # until a device that could not be stored is tried again

_KEY = re.compile(rb"[0-9a-f]{12}")  # of a device

_log = logging.getLogger(__name__)


class Presence:
    """What Redis knows of the workers."""

    def __init__(self, redis: Redis, keys: Keys = NO_KEYS) -> None:
        self._redis = redis
        self._keys = keys
        self._stamps = Stamps(redis)
        self._heard = Announced(keys)
        self._newest: Mapping[type[object], Newest] = {Announcement: Newest(), Lease: Newest()}
        # device -> an announcement that could not be stored, why, and since when (monotonic)
        self._rejected: dict[str, tuple[Announcement, str, float]] = {}
        self._untrusted: dict[str, float] = {}  # device -> since when it is so (monotonic)
        self._served: set[str] = set()  # devices that were announced at the last look
        self.unfit: Mapping[str, str] = {}  # device -> why its worker gets nothing, as of now
        self.lacking: Mapping[str, Mapping[str, str]] = {}  # device -> bundle it awaits -> why
        self.clocks: Mapping[str, int] = {}  # hosts whose clocks are wrong, by how many seconds
        self.protocols: Mapping[str, int] = {}  # device -> what its worker and this host speak

    def redis_run(self) -> str:
        """Id of the running Redis server; it changes at a restart, which may lose all keys."""
        with reach_redis():
            return str(self._redis.info("server")["run_id"])

    def announcements(self) -> list[Announcement]:
        """Announcements of devices that are served now, by workers that speak our protocol.

        This removes devices that no worker announces from Redis' set of them: workers add theirs
        each second.
        """
        with reach_redis():
            members = border.members(
                self._redis, wire.DEVICES, lambda name: bool(_KEY.fullmatch(name))
            )
        devices = [member.decode() for member in members]
        words, now = border.words(self._redis, [wire.announcement_of(device) for device in devices])
        by_device = {device: word for device, word in zip(devices, words, strict=True) if word}
        with reach_redis():
            gone = [member for member in members if member.decode() not in by_device]
            border.remove(self._redis, wire.DEVICES, gone)
        gone_now = self._served - by_device.keys()
        for device in gone_now:
            for newest in self._newest.values():
                newest.end(device)
        self._heard.forget(gone_now)
        self._served = set(by_device)
        for newest in self._newest.values():
            newest.forget()
        return self._read_announcements(by_device, now)

    def _read_announcements(self, by_device: Mapping[str, bytes], now: float) -> list[Announcement]:
        unfit: dict[str, str] = {}
        untrusted: dict[str, str] = {}
        protocols: dict[str, int] = {}
        announced = []
        for device, word in by_device.items():
            try:
                announcement = self._announcement(device, word, now)
                protocols[device] = self._protocol_with(announcement)
            except VkbenchError as error:
                counters.REFUSED.labels("announcement").inc()
                unfit[device] = f"its worker cannot be used: {error}"
                if isinstance(error, Untrusted):
                    untrusted[device] = str(error)
                continue
            if why := self._why_rejected(announcement):
                unfit[device] = why
                continue
            if announcement.refused:
                unfit[device] = f"its worker refuses jobs: {announcement.refused}"
            announced.append(announcement)
        self._note_lacking(announced)
        self._note_clocks(announced)
        self._note_untrusted(untrusted)
        self._note(unfit)
        self.protocols = protocols
        return announced

    def _announcement(self, device: str, word: bytes, now: float) -> Announcement:
        announcement, stamp = self._heard.read(device, word)
        self._check(Announcement, stamp, device, now, wire.ANNOUNCE_SECONDS)
        signing = names_of(self._keys.scheduler[:1])
        if announcement.knows and not set(signing) <= set(announcement.knows):
            raise KeyAwaited(
                "it lacks the key that the scheduler signs with: copy the keys to its host, and "
                "restart it there"
            )
        return announcement

    def _check(
        self, kind: type[object], stamp: Stamp, device: str, now: float, most: float
    ) -> None:
        """Raise Stale for a message that is too old, or older than its worker's last one.

        Where nothing is signed, workers of older versions may say no time.
        """
        if stamp.sent or self._keys.worker:
            check_age(stamp, now, most)
            self._newest[kind].check(device, stamp)

    def reject(self, announcement: Announcement, reason: str) -> None:
        """Reject a device that could not be stored, until its announcement changes."""
        why = f"its worker's announcement cannot be stored: {reason}"
        self._rejected[announcement.facts.key] = (announcement, why, time.monotonic())
        self._note({**self.unfit, announcement.facts.key: why})

    def _why_rejected(self, announcement: Announcement) -> str:
        rejected, why, at = self._rejected.get(announcement.facts.key, (None, "", 0.0))
        if rejected == announcement and time.monotonic() - at < REJECTED_SECONDS:
            return why
        self._rejected.pop(announcement.facts.key, None)
        return ""

    def _protocol_with(self, announcement: Announcement) -> int:
        """The newest protocol that a worker and this scheduler speak."""
        common = set(announcement.speaks) & set(self._keys.protocols)
        if not common:
            theirs, own = name_protocols(announcement.speaks), name_protocols(self._keys.protocols)
            raise Stranger(f"it speaks protocol {theirs}, the scheduler {own}")
        return max(common)

    def _note_clocks(self, announced: Iterable[Announcement]) -> None:
        clocks = {
            announcement.facts.host: announcement.skew
            for announcement in announced
            if announcement.skew
        }
        for host, seconds in clocks.items():
            if self.clocks.get(host) != seconds:
                log.warn(_log, "clock_wrong", host=host, clock=describe_skew(seconds))
        self.clocks = clocks

    def _note_untrusted(self, untrusted: Mapping[str, str]) -> None:
        """Report devices whose workers have other keys, if that lasts."""
        now = time.monotonic()
        self._untrusted = {device: self._untrusted.get(device, now) for device in untrusted}
        for device, since in self._untrusted.items():
            if now - since >= UNTRUSTED_SECONDS:
                OTHER_KEYS.note(device, untrusted[device])

    def _note_lacking(self, announced: Iterable[Announcement]) -> None:
        lacking = {
            announcement.facts.key: announcement.lacking
            for announcement in announced
            if announcement.lacking
        }
        for device, bundles in lacking.items():
            for sha in bundles.keys() - self.lacking.get(device, {}).keys():
                log.warn(_log, "bundle_awaited", device=device, bundle=sha, reason=bundles[sha])
                border.note(wire.bundle_of(sha[:12]), f"on {device}: {bundles[sha]}")
        self.lacking = lacking

    def _note(self, unfit: Mapping[str, str]) -> None:
        """Log new trouble, and write it to Redis, where `vkbench status` reads it."""
        shown = dict(islice(unfit.items(), MOST_UNFIT))  # a stranger can announce any number
        for device, reason in shown.items():
            if self.unfit.get(device) != reason:
                log.warn(_log, "device_unfit", device=device, reason=reason)
        trouble = Unfit(
            devices=shown,
            lacking=self.lacking,
            clocks=self.clocks,
            strange=ODDITIES.lately(),
        )
        if self.unfit or trouble != Unfit(devices={}):
            with reach_redis():
                word = wire.pack(replace(trouble, stamp=self._stamps.next()), self._keys)
                self._redis.set(wire.UNFIT, word, ex=wire.ANNOUNCE_SECONDS)
        self.unfit = unfit

    def leases(self, devices: Sequence[str]) -> dict[str, Lease]:
        """The leases of these devices' workers; none of a device whose worker is gone."""
        words, now = border.words(self._redis, [wire.lease_of(device) for device in devices])
        read = {
            device: self._lease(device, word, now)
            for device, word in zip(devices, words, strict=True)
        }
        return {device: lease for device, lease in read.items() if lease}

    def _lease(self, device: str, word: bytes | None, now: float) -> Lease | None:
        if word is None:
            self._newest[Lease].end(device)
            return None
        try:
            lease = wire.unpack(word, Lease, self._keys, device)
            self._check(Lease, lease.stamp, device, now, wire.LEASE_SECONDS)
        except VkbenchError as error:
            log.warn(_log, "word_refused", device=device, error=error)
            return None
        return lease

    def taking(self, devices: Iterable[str]) -> list[str]:
        """The devices among these whose workers take jobs now."""
        leases = self.leases(sorted(devices))
        return [key for key, lease in leases.items() if not lease.leaving]

    def cancel(self, runs: Iterable[int]) -> None:
        """Have workers skip and end the jobs of these runs."""
        with reach_redis(), self._redis.pipeline(transaction=False) as pipe:
            for run in runs:
                word = seal(b"1", wire.cancel_subject(run), self._keys)
                pipe.set(wire.cancel_of(run), word, ex=CANCEL_SECONDS)
            pipe.execute()

    def recall(self, devices: Iterable[str]) -> None:
        """Have the workers of these devices hand back what they hold, for a few seconds."""
        with reach_redis(), self._redis.pipeline(transaction=False) as pipe:
            stamp = self._stamps.next()
            for device in devices:
                word = wire.say(wire.recall_subject(device), stamp, self._keys)
                pipe.set(wire.recall_of(device), word, ex=wire.RECALL_SECONDS)
            pipe.execute()

    def end_recall(self, devices: Iterable[str]) -> None:
        """Let the workers of these devices keep what they get."""
        with reach_redis():
            self._redis.delete(*map(wire.recall_of, devices))


def read_unfit(settings: Settings) -> Unfit:
    """What keeps the schedulers from their work now."""
    keys = read_keys(settings)
    with connect(settings.redis) as redis, reach_redis():
        word, now = redis.get(wire.UNFIT), Stamps(redis).next().sent
    if not isinstance(word, bytes):
        return Unfit(devices={})
    trouble = wire.unpack(word, Unfit, keys)
    if trouble.stamp.sent or keys.scheduler:
        check_age(trouble.stamp, now, wire.ANNOUNCE_SECONDS)
    return trouble


class Stranger(VkbenchError):
    """A worker speaks no protocol of this scheduler."""
