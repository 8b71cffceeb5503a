"""The dispatcher: keeps a few seconds of work in the queue of each device that a worker serves.

The rows come first and the message after the commit. A crash between the two, or a message that
gets lost, leaves rows that the reconciler finds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from vkbench import log
from vkbench.settings import Settings
from vkbench.wire import Chunk
from vkbench_db.database import Database, try_lead
from vkbench_db.work.store import Recent, load, pick, recent_seconds
from vkbench_scheduler.metrics import counters
from vkbench_scheduler.queue.broker import Broker
from vkbench_scheduler.queue.chunks import ChunkBounds, cut
from vkbench_scheduler.tuned import with_tuned

MOST_JOBS = 200  # in a chunk
# A message that runs longer than the broker's visibility timeout would be sent again for nothing.
MOST_LIMIT_SECONDS = 3600.0
MOST_CHUNKS = 4  # in a window, whatever their estimates say
LEARN_SECONDS = 2.0  # how often the durations of a device are looked up

NOTHING_LACKING: Mapping[str, Collection[str]] = {}

_log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Learned:
    """Durations of a device, and when they were looked up (monotonic)."""

    recent: Recent
    at: float


class Dispatcher:
    """Moves jobs from SQL to the queues, never more than a window."""

    def __init__(self, database: Database, broker: Broker, settings: Settings) -> None:
        self._database = database
        self._broker = broker
        self._window = settings.window_seconds
        self._chunk = settings.chunk_seconds
        self._bounds = ChunkBounds(
            seconds=self._chunk, jobs=MOST_JOBS, limit_seconds=MOST_LIMIT_SECONDS
        )
        self._learned: dict[str, Learned] = {}
        self._doubtful = True  # whether Redis may refuse what is published

    def turn(
        self, devices: list[str], lacking: Mapping[str, Collection[str]] = NOTHING_LACKING
    ) -> int:
        """Fill the windows of these devices; says how many jobs were sent.

        Jobs of bundles that a device is `lacking` wait.
        """
        if not devices:
            return 0
        if self._doubtful:
            self._broker.check()  # before rows are marked, not after
        chunks = self._picked(devices, lacking)
        if not chunks:
            return 0
        self._publish(chunks)
        counters.sent(chunks)
        for chunk in chunks:
            runs = log.numbers(job.run for job in chunk.jobs)
            ids = log.numbers(job.id for job in chunk.jobs)
            log.event(_log, "chunk_sent", device=chunk.device, run=runs, job=ids)
        return sum(len(chunk.jobs) for chunk in chunks)

    def _picked(self, devices: list[str], lacking: Mapping[str, Collection[str]]) -> list[Chunk]:
        with self._database.transaction() as tx:
            if not try_lead(tx):
                return []
            return [
                chunk
                for device in devices
                for chunk in self._next(tx, device, lacking.get(device, ()))
            ]

    def _next(self, tx: Connection, device: str, without: Collection[str]) -> list[Chunk]:
        waiting = load(tx, device)
        room = self._window - waiting.seconds
        slots = MOST_CHUNKS * MOST_JOBS - waiting.jobs
        # Send whole chunks only: each message costs the device milliseconds.
        if waiting.jobs and (room < self._chunk or slots < MOST_JOBS):
            return []
        seconds = self._chunk * max(1, int(room / self._chunk))
        learned = self._durations(tx, device)
        now = time.time()
        picked = pick(tx, device, slots, now, seconds=seconds, learned=learned, without=without)
        told = with_tuned(tx, device, picked)
        return [Chunk(device=device, jobs=jobs) for jobs in cut(told, self._bounds)]

    def _durations(self, tx: Connection, device: str) -> Recent:
        known = self._learned.get(device)
        if not known or time.monotonic() - known.at > LEARN_SECONDS:
            known = Learned(recent=recent_seconds(tx, device), at=time.monotonic())
            self._learned[device] = known
        return known.recent

    def _publish(self, chunks: list[Chunk]) -> None:
        self._doubtful = True
        self._broker.publish(chunks)
        self._doubtful = False
