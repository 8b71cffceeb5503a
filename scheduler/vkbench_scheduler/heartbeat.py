"""A scheduler's heartbeat in SQL: `vkbench submit` reads it to warn if none is running."""

from __future__ import annotations

import logging
import os
import time

from vkbench.errors import ServiceUnreachable
from vkbench.process import log
from vkbench.settings import Settings
from vkbench_db.database import Database
from vkbench_db.upkeep.attendance import BEAT_SECONDS, beat, leave

_log = logging.getLogger(__name__)


class Heartbeat:
    """Records at intervals that this scheduler is running."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._name = f"{settings.host}:{os.getpid()}"
        self._due = 0.0  # monotonic

    def turn(self) -> None:
        """Record that this scheduler runs, if the next record is due."""
        if time.monotonic() < self._due:
            return
        with self._database.transaction() as tx:
            beat(tx, self._name, time.time())
        self._due = time.monotonic() + BEAT_SECONDS

    def end(self) -> None:
        """Delete the record, or let it grow old if the database cannot be reached."""
        try:
            with self._database.transaction() as tx:
                leave(tx, self._name)
        except ServiceUnreachable as error:
            log.warn(_log, "leave_not_said", error=error)
