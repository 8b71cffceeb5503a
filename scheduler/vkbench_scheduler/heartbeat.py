"""A scheduler's heartbeat: whoever submits work sees in SQL whether anybody sends it."""

from __future__ import annotations

import logging
import os
import time

from vkbench import log
from vkbench.errors import ServiceUnreachable
from vkbench.settings import Settings
from vkbench_db.attendance import BEAT_SECONDS, beat, leave
from vkbench_db.database import Database

_log = logging.getLogger(__name__)


class Heartbeat:
    """Says now and then that this scheduler is there."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._name = f"{settings.host}:{os.getpid()}"
        self._due = 0.0  # monotonic

    def turn(self) -> None:
        """Say it, if it is time."""
        if time.monotonic() < self._due:
            return
        with self._database.transaction() as tx:
            beat(tx, self._name, time.time())
        self._due = time.monotonic() + BEAT_SECONDS

    def end(self) -> None:
        """Say that it is not there any more; a database that is gone learns it by the silence."""
        try:
            with self._database.transaction() as tx:
                leave(tx, self._name)
        except ServiceUnreachable as error:
            log.warn(_log, "leave_not_said", error=error)
