"""The dispatcher: keeps a few seconds of work in the queue of each device that a worker serves.

The rows come first and the message after the commit. A crash between the two, or a message that
gets lost, leaves rows that the reconciler finds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from vkbench.messages.wire import Chunk
from vkbench.process import log
from vkbench.settings import Settings
from vkbench_db.batches import batches
from vkbench_db.database import Database, try_lead
from vkbench_db.work.store import (
    DeviceLoad,
    Recent,
    Wanted,
    awaited_devices,
    loads,
    pick_all,
    recent_seconds,
)
from vkbench_scheduler.metrics import counters
from vkbench_scheduler.queue.broker import Broker
from vkbench_scheduler.queue.chunks import ChunkBounds, cut
from vkbench_scheduler.tuned import with_all_tuned

MOST_JOBS = 200  # in a chunk
# A message that runs longer than the broker's visibility timeout would be sent again for nothing.
MOST_LIMIT_SECONDS = 3600.0
MOST_CHUNKS = 4  # in a window, whatever their estimates say
AT_ONCE = 50  # devices that a transaction serves: their messages leave before others are picked
LEARN_SECONDS = 2.0  # until the durations of a new device are looked up again; then ever longer
LEARN_MOST_SECONDS = 60.0

Lacking = Mapping[str, Collection[str]]  # device -> bundles that it awaits
NOTHING: Lacking = {}

_log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Learned:
    """Durations of a device, and when they were looked up (monotonic)."""

    recent: Recent
    at: float
    seconds: float  # for which they are good


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

    def turn(self, taking: Callable[[list[str]], list[str]], lacking: Lacking = NOTHING) -> int:
        """Fill the windows of devices that jobs wait for; says how many jobs were sent.

        `taking` says which of some devices take jobs now. Jobs of bundles that a device is
        `lacking` wait.
        """
        with self._database.reading() as tx:
            waiting = awaited_devices(tx, most_seconds=max(0.0, self._window - self._chunk))
        roomy = [key for key, load in waiting.items() if self._has_room(load)]
        devices = taking(roomy) if roomy else []
        return sum(self._send(group, lacking) for group in batches(devices, AT_ONCE))

    def _send(self, devices: list[str], lacking: Lacking) -> int:
        if self._doubtful:
            self._broker.check()  # before rows are marked, not after
        chunks = self._pick(devices, lacking)
        if not chunks:
            return 0
        self._publish(chunks)
        counters.count_sent(chunks)
        for chunk in chunks:
            runs = log.numbers(job.run for job in chunk.jobs)
            ids = log.numbers(job.id for job in chunk.jobs)
            log.event(_log, "chunk_sent", device=chunk.device, run=runs, job=ids)
        return sum(len(chunk.jobs) for chunk in chunks)

    def _pick(self, devices: list[str], lacking: Lacking) -> list[Chunk]:
        with self._database.transaction() as tx:
            if not try_lead(tx):
                return []
            # again: another scheduler may have filled them since
            requests = [
                self._jobs_wanted_by(tx, device, load, lacking)
                for device, load in loads(tx, devices).items()
                if self._has_room(load)
            ]
            picked = with_all_tuned(tx, pick_all(tx, requests, time.time()))
        return [
            Chunk(device=device, jobs=jobs)
            for device in devices
            for jobs in cut(picked.get(device, ()), self._bounds)
        ]

    def _has_room(self, load: DeviceLoad) -> bool:
        """Whether a whole chunk fits: each message costs the device milliseconds."""
        room, slots = self._room(load)
        return not load.jobs or (room >= self._chunk and slots >= MOST_JOBS)

    def _room(self, load: DeviceLoad) -> tuple[float, int]:
        """Seconds and jobs that are free in a window."""
        return self._window - load.seconds, MOST_CHUNKS * MOST_JOBS - load.jobs

    def _jobs_wanted_by(
        self, tx: Connection, device: str, load: DeviceLoad, lacking: Lacking
    ) -> Wanted:
        room, slots = self._room(load)
        return Wanted(
            device=device,
            jobs=slots,
            seconds=self._chunk * max(1, int(room / self._chunk)),
            learned=self._durations(tx, device),
            without=lacking.get(device, ()),
        )

    def _durations(self, tx: Connection, device: str) -> Recent:
        known, now = self._learned.get(device), time.monotonic()
        if known and now < known.at + known.seconds:
            return known.recent
        seconds = min(2 * known.seconds, LEARN_MOST_SECONDS) if known else LEARN_SECONDS
        learned = Learned(recent=recent_seconds(tx, device), at=now, seconds=seconds)
        self._learned[device] = learned
        return learned.recent

    def _publish(self, chunks: list[Chunk]) -> None:
        self._doubtful = True
        self._broker.publish(chunks)
        self._doubtful = False
