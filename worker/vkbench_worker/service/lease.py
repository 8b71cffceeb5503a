"""The lease: each second a worker says in Redis which jobs it holds and which device it serves."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice

from redis import Redis
from redis.exceptions import RedisError

from vkbench.errors import VkbenchError
from vkbench.job import Job
from vkbench.messages import wire
from vkbench.messages.signing import NO_KEYS, Keys
from vkbench.messages.stamps import Newest, Stamps, check_age, skew
from vkbench.messages.wire import Announcement, Lease
from vkbench.process import log
from vkbench.words.visible import visible
from vkbench_worker.service.claims import cancelled_runs

BEAT_SECONDS = 1.0
MOST_WORDS = 1000  # of a reason
MOST_LACKING = 16  # bundles that an announcement names
REFUSED_SECONDS = 20.0  # between two tries of a scheduler whose chunks are refused

Describe = Callable[[Announcement], Announcement]

_log = logging.getLogger(__name__)


class Pulse:
    """A thread that renews lease and announcement, and learns which held runs are cancelled."""

    def __init__(
        self,
        redis: Redis,
        announcement: Announcement,
        renewed: Callable[[], None] = lambda: None,
        keys: Keys = NO_KEYS,
        describe: Describe = lambda announcement: announcement,
    ) -> None:
        self._redis = redis
        self._keys = keys
        self._stamps = Stamps(redis)
        self._newest = Newest()  # of recalls
        self._refused, self._refused_until = "", 0.0  # monotonic; of chunks as they came
        self._unfit, self._unfit_until = "", 0.0  # of this host
        self._lacking: dict[str, tuple[str, float]] = {}  # bundle -> why, and until when
        self._announcement = announcement
        self._describe = describe  # adds to each announcement what its host has
        self._renewed = renewed  # called whenever Redis has the lease
        self._device = announcement.facts.key
        self._running: dict[tuple[int, int], Job] = {}  # on the device, or about to be
        self._ended: dict[tuple[int, int], Job] = {}
        self._cancelled: frozenset[int] = frozenset()
        self._leaving = False
        self.said_leaving = False  # whether the lease in Redis says so
        self.recalled = False  # whether this device's jobs are to go back, as of the last beat
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._beat_on, name="pulse", daemon=True)

    def start(self) -> None:
        """Start the thread of the heartbeat."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the heartbeat; delete the lease and the announcement."""
        self._stopping = True
        self._wake.set()
        self._thread.join()
        try:
            self._redis.delete(wire.lease_of(self._device), wire.announcement_of(self._device))
        except RedisError as error:  # they expire by themselves
            log.warn(_log, "lease_left", error=error)

    def hold(self, jobs: Iterable[Job]) -> None:
        """Add jobs to the lease, in their order; the thread writes it to Redis at once."""
        with self._lock:
            self._running = {(job.id, job.token): job for job in jobs}
            self._ended = {}
        self._wake.set()

    def drop(self) -> None:
        """Remove all jobs; the next heartbeat writes it to Redis."""
        with self._lock:
            self._running, self._ended = {}, {}

    def leave(self) -> None:
        """Say that this worker takes no more jobs; the thread writes it to Redis at once."""
        self._leaving = True
        self._wake.set()

    def held_jobs(self) -> list[Job]:
        """The jobs that have not ended, the one on the device first."""
        with self._lock:
            return list(self._running.values())

    def finish(self, job: int, token: int) -> Job | None:
        """Note that a job has ended and that its result is not sent yet; return the job."""
        with self._lock:
            ended = self._running.pop((job, token), None)
            if ended:
                self._ended[job, token] = ended
        return ended

    def release(self, job: int, token: int) -> None:
        """Remove a job whose result is in Redis; until then only the lease lists it."""
        with self._lock:
            self._running.pop((job, token), None)
            self._ended.pop((job, token), None)

    def is_cancelled(self, job: Job) -> bool:
        """Whether the job's run was cancelled, as of the last beat."""
        return job.run in self._cancelled

    def refuse(self, reason: str) -> None:
        """Have the scheduler send nothing for a while, and say why."""
        self._refused, self._refused_until = reason, time.monotonic() + REFUSED_SECONDS
        self._wake.set()

    def rest(self, reason: str, seconds: float) -> None:
        """Have the scheduler send nothing for so long, since this host can do no job, and say why.

        A chunk that is in order does not end that.
        """
        self._unfit, self._unfit_until = reason, time.monotonic() + seconds
        self._wake.set()

    def lack(self, bundle: str, reason: str, seconds: float) -> None:
        """Have the scheduler send no job of a bundle for so long, and say why."""
        with self._lock:
            self._lacking[bundle] = (reason, time.monotonic() + seconds)
        self._wake.set()

    def accept(self) -> None:
        """Note that a chunk was in order."""
        self._refused_until = 0.0

    def _compose_announcement(self) -> Announcement:
        now = time.monotonic()
        unfit = self._unfit if now < self._unfit_until else ""
        refused = unfit or (self._refused if now < self._refused_until else "")
        with self._lock:
            self._lacking = {
                sha: (why, until) for sha, (why, until) in self._lacking.items() if now < until
            }
            lacking = {sha: why for sha, (why, _) in self._lacking.items()}
        return replace(
            self._describe(self._announcement),
            refused=visible(refused)[:MOST_WORDS],
            lacking=dict(islice(lacking.items(), MOST_LACKING)),
        )

    def _beat_on(self) -> None:
        while not self._stopping:
            self._beat()
            self._wake.wait(BEAT_SECONDS)
            self._wake.clear()

    def _beat(self) -> None:
        with self._lock:
            held, running = self._running | self._ended, bool(self._running)
        lease = Lease(
            worker=self._announcement.worker,
            jobs=tuple(held),
            running=running,
            leaving=self._leaving,
        )
        runs = sorted({job.run for job in held.values()})
        try:
            lease = replace(lease, stamp=self._stamps.next())
            answers = self._send(lease, runs)
        except RedisError as error:
            log.warn(_log, "lease_not_renewed", error=error)
            return
        self._renewed()
        self.said_leaving = lease.leaving
        *words, recall = answers
        self._cancelled = cancelled_runs(runs, words, self._keys)
        self.recalled = self._is_recalled(recall, lease.stamp.sent)

    def _is_recalled(self, message: object, now: float) -> bool:
        """Whether a scheduler has just said that this device's jobs are to go back."""
        subject = wire.recall_subject(self._device)
        if not isinstance(message, bytes):
            self._newest.end(self._device)  # it holds no more: who says it again is no scheduler
            return False
        try:
            stamp = wire.hear(message, subject, self._keys).stamp
            check_age(stamp, now, wire.RECALL_SECONDS)
            self._newest.check(self._device, stamp)
        except VkbenchError as error:
            log.warn(_log, "word_refused", word=subject, error=error)
            return False
        return True

    def _send(self, lease: Lease, runs: list[int]) -> list[object]:
        device, keys = self._device, self._keys
        announcement = wire.pack(
            replace(self._compose_announcement(), stamp=lease.stamp, skew=skew(lease.stamp.sent)),
            keys,
            device,
        )
        with self._redis.pipeline(transaction=False) as pipe:
            for run in runs:
                pipe.get(wire.cancel_of(run))
            pipe.get(wire.recall_of(device))
            pipe.set(wire.lease_of(device), wire.pack(lease, keys, device), ex=wire.LEASE_SECONDS)
            pipe.set(wire.announcement_of(device), announcement, ex=wire.ANNOUNCE_SECONDS)
            pipe.sadd(wire.DEVICES, device)
            if lease.jobs:  # then there is a queue
                for key in (wire.queue_of(device), *wire.unacknowledged_of(device)):
                    pipe.expire(key, wire.QUEUE_SECONDS)
            answers = pipe.execute(raise_on_error=False)
        words = answers[: len(runs) + 1]
        leased, announced, listed = answers[len(words) : len(words) + 3]
        for answer in (leased, announced):
            if isinstance(answer, Exception):
                raise answer
        for answer in (*words, listed):  # a key that holds something else: the scheduler clears it
            if isinstance(answer, Exception):
                log.warn(_log, "word_refused", error=answer)
        return words
