"""The registry: devices as workers announce them, cancelled runs, bundles that workers lack."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from vkbench.errors import ServiceUnreachable, VkbenchError
from vkbench.messages.wire import Announcement, Lease
from vkbench.process import log
from vkbench_db.batches import batches
from vkbench_db.database import Database, is_of_schema, reason_of
from vkbench_db.errors import DatabaseUnreachable
from vkbench_db.work.store import (
    cancelled_since,
    mark_running,
    note_seen,
    recalled_devices,
    register_devices,
)
from vkbench_scheduler.bundles import find_stored
from vkbench_scheduler.errors import BrokerUnreachable
from vkbench_scheduler.metrics import counters
from vkbench_scheduler.queue.presence import Presence
from vkbench_scheduler.queue.wishes import Wishes
from vkbench_shaders.bundle import MOST_BYTES

AT_ONCE = 500  # devices that a transaction stores
SEEN_SECONDS = 10.0  # how often the database is told that a device is still there
CANCEL_MEMORY_SECONDS = 600.0  # how long workers are reminded of a cancelled run

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What SQL knows of a device."""

    announcement: Announcement
    id: int
    at: float  # when SQL was told last, monotonic


class Registry:
    """Writes announced devices to SQL; sends cancelled runs and bundles to workers."""

    def __init__(self, database: Database, presence: Presence, wishes: Wishes) -> None:
        self._database = database
        self._presence = presence
        self._wishes = wishes
        self._recalled: set[str] = set()
        self._stored: dict[str, Stored] = {}  # by device
        self.leases: Mapping[str, Lease] = {}  # by device, as of the last look
        self._running: set[tuple[int, int]] = set()  # (job, token) that SQL has as running

    def look(self) -> list[str]:
        """Look once; the devices that a worker serves now, and can be sent jobs.

        An announcement outlives its worker by some seconds, the lease says whether it is there.
        """
        announced = self._presence.announcements()
        self._register(announced)
        self._remind()
        for sha in self._wishes.list_wanted_bundles():
            self._bring(sha)
        self.leases = self._presence.leases([announcement.facts.key for announcement in announced])
        self._note_running(self.leases.values())
        return sorted(self.leases.keys() - self._presence.unfit.keys())

    def _register(self, announced: Iterable[Announcement]) -> None:
        """Store devices that are new or changed; note now and then that the others are there."""
        by_key = {announcement.facts.key: announcement for announcement in announced}
        now = time.monotonic()
        news = [
            announcement
            for key, announcement in by_key.items()
            if self._stored_announcement(key) != announcement
        ]
        old = [key for key, announcement in by_key.items() if self._is_old(key, now)]
        for group in batches(news, AT_ONCE):
            self._store(group)
        if old:
            self._note_seen(old, by_key, now)

    def _store(self, announcements: Sequence[Announcement]) -> None:
        """Store all in one transaction; if the database refuses one, still store the others."""
        try:
            with self._database.transaction() as tx:
                ids = register_devices(tx, announcements, time.time())
        except ServiceUnreachable:
            raise
        except Exception as error:
            if is_of_schema(error):
                raise  # no announcement is at fault
            if len(announcements) > 1:
                middle = len(announcements) // 2
                self._store(announcements[:middle])
                self._store(announcements[middle:])
                return
            counters.REFUSED.labels("announcement").inc()
            self._presence.reject(announcements[0], reason_of(error))
        else:
            for announcement in announcements:
                self._note(announcement, ids[announcement.facts.key])

    def _note(self, announcement: Announcement, number: int) -> None:
        device = announcement.facts.key
        if device not in self._stored:
            log.event(_log, "device_found", device=device, name=announcement.facts.name)
        self._stored[device] = Stored(announcement=announcement, id=number, at=time.monotonic())

    def _note_seen(
        self, devices: Sequence[str], announcements: Mapping[str, Announcement], now: float
    ) -> None:
        stored = {device: self._stored[device] for device in devices}
        with self._database.transaction() as tx:
            known = note_seen(tx, (registered.id for registered in stored.values()), time.time())
        if known < len(stored):  # the database is another one now: a backup was restored
            self._store([announcements[device] for device in devices])
            return
        for device, registered in stored.items():
            self._stored[device] = replace(registered, at=now)

    def _is_old(self, device: str, now: float) -> bool:
        stored = self._stored.get(device)
        return stored is not None and now - stored.at > SEEN_SECONDS

    def _stored_announcement(self, device: str) -> Announcement | None:
        """What SQL knows of a device."""
        stored = self._stored.get(device)
        return stored.announcement if stored else None

    def _note_running(self, leases: Iterable[Lease]) -> None:
        running = {lease.jobs[0] for lease in leases if lease.running and lease.jobs}
        if begun := running - self._running:
            with self._database.transaction() as tx:
                mark_running(tx, begun)
        self._running = running

    def _remind(self) -> None:
        with self._database.reading() as tx:
            runs = cancelled_since(tx, time.time() - CANCEL_MEMORY_SECONDS)
            devices = set(recalled_devices(tx))
        if runs:
            self._presence.cancel(runs)
        if devices:
            self._presence.recall(devices)
        if self._recalled - devices:
            self._presence.end_recall(self._recalled - devices)
        self._recalled = devices

    def _bring(self, sha: str) -> None:
        """Bring a bundle, or say why not, without holding up other bundles and jobs."""
        try:
            with self._database.reading() as tx:
                bundle = find_stored(tx, sha)
            if bundle is None:
                self._refuse(sha, "the scheduler's database has no such bundle")
                return
            if (size := sum(map(len, bundle.blobs.values()))) > MOST_BYTES:
                self._refuse(sha, f"it has {size} bytes, and {MOST_BYTES} are allowed")
                return
            self._wishes.bring(sha, bundle.archive())
            log.event(_log, "bundle_brought", bundle=sha)
        except DatabaseUnreachable:
            raise
        except (VkbenchError, MemoryError) as error:
            self._refuse(sha, str(error) or "the scheduler has not enough memory for it")

    def _refuse(self, sha: str, reason: str) -> None:
        log.warn(_log, "bundle_refused", bundle=sha, reason=reason)
        try:
            self._wishes.refuse(sha, reason)
        except BrokerUnreachable as error:  # workers wait in vain, and say so themselves
            log.warn(_log, "refusal_not_sent", bundle=sha, error=error)
