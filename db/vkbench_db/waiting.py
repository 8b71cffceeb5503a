"""How a process waits while another writes to SQLite's file.

SQLite has one writer at a time and no queue: who waits tries again and again. A writer that stores
much does so in parts, and leaves LET_IN_SECONDS between two of them for whoever waits.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

LOOK_SECONDS = 0.01  # from one try to the next
LET_IN_SECONDS = 0.03  # three tries
SILENT_SECONDS = 2.0  # of a command's wait
SERVICE_SECONDS = 10.0  # that a service waits; then it logs, and comes back
COMMAND_SECONDS = 600.0  # that a command waits; an import of a night takes minutes
SENTENCE = "waiting for the database: another process writes to it"


class WriterWait:
    """One wait for other writers: it lasts so many seconds, and on while `goes_on` says so."""

    def __init__(
        self, seconds: float, goes_on: Callable[[], bool] = lambda: False, *, is_told: bool
    ) -> None:
        self._seconds, self._goes_on = seconds, goes_on
        self._is_told = is_told  # whether people read what this process says
        self._began = time.monotonic()

    def again(self) -> bool:
        """Wait until the next try; False if it is over."""
        waited = time.monotonic() - self._began
        if waited >= self._seconds and not self._goes_on():
            return False
        if self._is_told and waited >= SILENT_SECONDS:
            self._is_told = False
            print(SENTENCE, file=sys.stderr, flush=True)
        time.sleep(LOOK_SECONDS)
        return True
