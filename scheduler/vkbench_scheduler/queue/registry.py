"""The registry: devices as workers announce them, cancelled runs, bundles that workers lack."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence

from vkbench import log
from vkbench.errors import ServiceUnreachable, VkbenchError
from vkbench.wire import Announcement, Lease
from vkbench_db.database import Database, is_of_schema, reason_of
from vkbench_db.errors import DatabaseUnreachable
from vkbench_db.work.store import cancelled_since, mark_running, recalled, register_device
from vkbench_scheduler.bundles import stored
from vkbench_scheduler.errors import BrokerUnreachable
from vkbench_scheduler.metrics import counters
from vkbench_scheduler.queue.presence import Presence
from vkbench_scheduler.queue.wishes import Wishes
from vkbench_shaders.bundle import MOST_BYTES

SEEN_SECONDS = 10.0  # how often the database is told that a device is still there
CANCEL_MEMORY_SECONDS = 600.0  # how long workers are reminded of a cancelled run

_log = logging.getLogger(__name__)


class Registry:
    """Writes announced devices to SQL; sends cancelled runs and bundles to workers."""

    def __init__(self, database: Database, presence: Presence, wishes: Wishes) -> None:
        self._database = database
        self._presence = presence
        self._wishes = wishes
        self._recalled: set[str] = set()
        self._noted: dict[str, tuple[Announcement, float]] = {}  # device -> what SQL knows, since

    def look(self) -> list[str]:
        """Look once; the devices that a worker serves now, and can be sent jobs.

        An announcement outlives its worker by some seconds, the lease says whether it is there.
        """
        announced = self._presence.announcements()
        self._register(announced)
        self._remind()
        for sha in self._wishes.wanted():
            self._bring(sha)
        leases = self._presence.leases([each.facts.key for each in announced])
        self._note_running(leases.values())
        return sorted(leases.keys() - self._presence.unfit.keys())

    def _register(self, announced: Iterable[Announcement]) -> None:
        """Store devices that are new, that changed, and those that are still there now and then.

        One that the database refuses keeps no other from being stored: each new or changed one has
        a transaction of its own; those that it took before share one.
        """
        news = [each for each in announced if self._is_news(each)]
        known = [each for each in news if self._known(each) == each]
        for group in ([each] for each in news if each not in known):
            self._store(group)
        self._store(known)

    def _store(self, announcements: Sequence[Announcement]) -> None:
        if not announcements:
            return
        try:
            with self._database.transaction() as tx:
                for each in announcements:
                    register_device(tx, each, time.time())
        except ServiceUnreachable:
            raise
        except Exception as error:
            if is_of_schema(error):
                raise  # no announcement is at fault
            if len(announcements) > 1:
                for each in announcements:
                    self._store([each])
                return
            counters.REFUSED.labels("announcement").inc()
            self._presence.reject(announcements[0], reason_of(error))
        else:
            for each in announcements:
                self._note(each)

    def _note(self, announcement: Announcement) -> None:
        device = announcement.facts.key
        if device not in self._noted:
            log.event(_log, "device_found", device=device, name=announcement.facts.name)
        self._noted[device] = (announcement, time.monotonic())

    def _is_news(self, announcement: Announcement) -> bool:
        _, at = self._noted.get(announcement.facts.key, (None, 0.0))
        is_old = time.monotonic() - at > SEEN_SECONDS
        return is_old or self._known(announcement) != announcement

    def _known(self, announcement: Announcement) -> Announcement | None:
        """What SQL knows of the same device."""
        return self._noted.get(announcement.facts.key, (None, 0.0))[0]

    def _note_running(self, leases: Iterable[Lease]) -> None:
        running = [lease.jobs[0] for lease in leases if lease.running and lease.jobs]
        if running:
            with self._database.transaction() as tx:
                mark_running(tx, running)

    def _remind(self) -> None:
        with self._database.reading() as tx:
            runs = cancelled_since(tx, time.time() - CANCEL_MEMORY_SECONDS)
            devices = set(recalled(tx))
        if runs:
            self._presence.cancel(runs)
        if devices:
            self._presence.recall(devices)
        if self._recalled - devices:
            self._presence.end_recall(self._recalled - devices)
        self._recalled = devices

    def _bring(self, sha: str) -> None:
        """Bring a bundle, or say why not; no bundle keeps the others, or any job, waiting."""
        try:
            with self._database.reading() as tx:
                bundle = stored(tx, sha)
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
