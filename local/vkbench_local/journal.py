"""The journal of a run on this machine: what its devices read from the database and write to it.

Devices work side by side, each in a thread of its own; they write, and are shown, one at a time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Protocol

from vkbench.device import Environment
from vkbench.errors import VkbenchError
from vkbench.job import Job
from vkbench.messages.wire import Announcement
from vkbench.result import Result
from vkbench.settings import Settings
from vkbench.words.visible import visible
from vkbench_db.database import Database, Transaction
from vkbench_db.work import store
from vkbench_db.work.devices import store_environment
from vkbench_db.work.store import Picked
from vkbench_scheduler.bundles import find_stored
from vkbench_scheduler.queue.chunks import ChunkBounds
from vkbench_scheduler.tuned import with_tuned
from vkbench_shaders.bundle import kept_bundles
from vkbench_worker.progress import Tell
from vkbench_worker.protocol import Stage

Watch = Callable[[Result], None]


class View(Protocol):
    """Shows how far a run is."""

    def watch(self, result: Result) -> None:
        """Take note that a job ended."""

    def tell(self, stage: Stage) -> None:
        """Show that a job waits for a file."""


class Journal:
    """The database as an executor uses it, and the view that shows what happens."""

    def __init__(self, database: Database, settings: Settings, watch: Watch, tell: Tell) -> None:
        self.stopped = False  # whether no more jobs begin: the user or the clock said so
        self._database = database
        self._watch, self._tell = watch, tell  # called with each result, and of files on the way
        self._bundles = kept_bundles(settings)
        self._brought: set[str] = set()  # bundles that were looked for
        self._bringing, self._showing, self._writer = Lock(), Lock(), Lock()

    def follow(self, view: View) -> None:
        """From now on show this view what happens."""
        self._watch, self._tell = view.watch, view.tell

    def tell(self, stage: Stage) -> None:
        """Tell that a job waits for a file."""
        with self._showing:
            self._tell(stage)

    def announce(self, announcement: Announcement) -> None:
        """Store that a device is ready."""
        with self._writing() as tx:
            store.register_device(tx, announcement, time.time())

    def note_environment(self, environment: Environment) -> None:
        """Store what results may come from beside what devices announce."""
        with self._writing() as tx:
            store_environment(tx, environment)

    def take_over(self, device: str, died: Result | None) -> None:
        """Queue again the jobs that a dead process left; the one that was running loses a try."""
        now = time.time()
        with self._writing() as tx:
            if died:
                store.record(tx, [died], now)
            # whenever they were sent: the clock may have been set back since
            store.return_lost(tx, store.in_flight(tx, device), now)

    def take(self, run: int, device: str, bounds: ChunkBounds) -> list[Picked]:
        """Some of the jobs that a run has left for a device; no other device gets these."""
        with self._writing() as tx:
            picked = store.pick(
                tx, device, bounds.jobs, time.time(), seconds=bounds.seconds, run=run
            )
            return with_tuned(tx, device, picked)

    def record(self, results: Sequence[Result]) -> None:
        """Store results, and show them."""
        with self._writing() as tx:
            store.record(tx, results, time.time())
        with self._showing:
            for result in results:
                self._watch(result)

    def give_back(self, jobs: Iterable[tuple[int, int]]) -> None:
        """Queue jobs again that have no result, by their number and token."""
        with self._writing() as tx:
            store.return_lost(tx, jobs, time.time())

    def bring_bundles(self, jobs: Sequence[Job]) -> None:
        """Write the bundles that jobs need to this machine's folder; a job without one fails."""
        needed = {sha for job in jobs for sha in job.bundles if sha}
        with self._bringing:
            for sha in sorted(needed - self._brought):
                self._brought.add(sha)
                try:
                    self._bring(sha)
                except (VkbenchError, OSError) as error:
                    print(visible(f"bundle {sha[:12]} cannot be had: {error}"), file=sys.stderr)

    def _bring(self, sha: str) -> None:
        if self._bundles.is_whole(sha):
            return
        with self._database.reading() as tx:
            bundle = find_stored(tx, sha)
        if bundle:
            self._bundles.put(bundle)

    @contextmanager
    def _writing(self) -> Iterator[Transaction]:
        """A writing transaction; it waits out a long one of another process, as of an import."""
        with self._writer, self._database.transaction(lambda: not self.stopped) as tx:
            yield tx
