"""The reconciler: finds sent jobs that no worker holds any more, and queues them again.

A sent job is in its device's queue, then in a worker's lease, then in the stream of results, then
in SQL. The places are looked at in this order, so a job that moves on is seen at least once, save
for the instant between queue and lease: only what is missing on two looks in a row is lost.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping

from redis import Redis

from vkbench.messages.signing import NO_KEYS, Keys
from vkbench.messages.wire import Lease
from vkbench.process import log
from vkbench_db.database import Database, try_lead
from vkbench_db.work.store import InFlight, dispatched_before, return_lost
from vkbench_scheduler.metrics import counters
from vkbench_scheduler.queue.broker import Broker
from vkbench_scheduler.queue.presence import Presence
from vkbench_scheduler.queue.stream import on_their_way

RESTART_AGE_SECONDS = 1.0  # after a restart of Redis even young jobs are looked for
ROW_SECONDS = 15.0  # looks further apart than this are not in a row
# How long a result that lies in the stream keeps its job from being queued again. Counts from the
# first look that missed the job: while SQL was unreachable, no result could be recorded.
PATIENCE = 5  # in units of lost_seconds

_log = logging.getLogger(__name__)

NO_LEASES: Mapping[str, Lease] = {}

Pair = tuple[int, int]  # job, token


class Reconciler:
    """Compares the jobs that SQL has as sent with those that Redis or a worker holds."""

    def __init__(
        self,
        database: Database,
        broker: Broker,
        presence: Presence,
        redis: Redis,
        lost_seconds: float,
        keys: Keys = NO_KEYS,
    ) -> None:
        self._keys = keys
        self._database = database
        self._broker = broker
        self._presence = presence
        self._redis = redis
        self._lost_seconds = lost_seconds
        self._redis_run = ""
        self._restarted_at = float("-inf")  # monotonic
        self._looked_at = float("-inf")
        self._missing: dict[Pair, float] = {}  # since when, monotonic

    def look(self, known: Mapping[str, Lease] = NO_LEASES) -> int:
        """Look once; says how many jobs were queued again.

        What leases that are `known` already list needs no further look.
        """
        age = self._age()
        with self._database.reading() as tx:
            sent = dispatched_before(tx, time.time() - age)
        held = {pair for lease in known.values() for pair in lease.jobs}
        missing = self._nowhere([job for job in sent if (job.job, job.token) not in held])
        now = time.monotonic()
        before = self._missing if now - self._looked_at < ROW_SECONDS else {}
        self._missing = {pair: before.get(pair, now) for pair in missing}
        self._looked_at = now
        lost = missing & before.keys()
        return self._return(lost) if lost else 0

    def _age(self) -> float:
        run = self._presence.redis_run()
        if self._redis_run and run != self._redis_run:
            log.warn(_log, "redis_restarted")
            self._restarted_at = time.monotonic()
        self._redis_run = run
        recent = time.monotonic() - self._restarted_at < 2 * self._lost_seconds
        return min(RESTART_AGE_SECONDS, self._lost_seconds) if recent else self._lost_seconds

    def _nowhere(self, sent: Iterable[InFlight]) -> set[Pair]:
        missing = {(job.job, job.token) for job in sent}
        devices = sorted({job.device for job in sent})
        for device in devices:
            missing -= self._broker.list_queued(device)
        for lease in self._presence.leases(devices).values():
            missing -= set(lease.jobs)
        return missing

    def _return(self, lost: set[Pair]) -> int:
        patient = time.monotonic() - PATIENCE * self._lost_seconds
        waiting = {
            pair
            for pair in on_their_way(self._redis, self._keys)
            if self._missing.get(pair, 0) > patient
        }
        with self._database.transaction() as tx:
            if not try_lead(tx):
                return 0
            returned = return_lost(tx, lost - waiting, time.time())
        if returned.queued or returned.failed:
            counters.LOST.inc(returned.queued + returned.failed)
            log.warn(
                _log,
                "jobs_lost",
                job=log.numbers(job for job, _ in sorted(lost - waiting)),
                queued_again=returned.queued,
                failed=returned.failed,
            )
        return returned.queued
