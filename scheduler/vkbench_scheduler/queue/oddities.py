"""Remembers what lay in Redis and was no message, for logs, `vkbench status` and alerts.

It needs no client of Redis: the alerts that tell of it are sent where none is installed, too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Final

from vkbench.process import log

MOST_PLACES: Final = 20  # strange places in Redis that an operator is told of at a time
TOLD_SECONDS: Final = 600.0  # for how long an operator is told of a place
UNTOLD_SECONDS: Final = 86_400.0  # between two alerts about one place
SILENT_SECONDS: Final = 60.0  # between two lines of the log about one place

_log = logging.getLogger(__name__)


class Oddities:
    """Oddities by place, shown for a while, and alerted again each day."""

    def __init__(self, event: str = "redis_strange") -> None:
        self._event = event  # of the log
        self._oddities: dict[str, tuple[str, float]] = {}  # place -> what, and when (monotonic)
        self._logged_at: dict[str, float] = {}  # place -> when the log said so last
        self._alerted_at: dict[str, float] = {}  # place -> when the alert channels heard of it last
        self._lock = Lock()  # several threads read Redis

    def note(self, place: str, what: str) -> None:
        """Log an oddity now and then, and keep it for operators for a while."""
        now = time.monotonic()
        with self._lock:
            self._forget(now)
            if place in self._oddities or len(self._oddities) < MOST_PLACES:
                self._oddities[place] = (what, now)
            silent = now - self._logged_at.get(place, float("-inf")) < SILENT_SECONDS
            if not silent and len(self._logged_at) < MOST_PLACES:
                self._logged_at[place] = now
                log.warn(_log, self._event, key=place, found=what)

    def lately(self) -> Mapping[str, str]:
        """Place in Redis -> what was found there within TOLD_SECONDS."""
        with self._lock:
            self._forget(time.monotonic())
            return {place: what for place, (what, _) in self._oddities.items()}

    def list_untold(self) -> Mapping[str, str]:
        """The lately found places that the alert channels have not heard of for a day."""
        alerted_at = self._alerted_at
        now = time.monotonic()
        return {
            place: what
            for place, what in self.lately().items()
            if now - alerted_at.get(place, float("-inf")) > UNTOLD_SECONDS
        }

    def note_told(self, places: Iterable[str]) -> None:
        """Note that the alert channels have heard of these."""
        now = time.monotonic()
        recent = {place: at for place, at in self._alerted_at.items() if now - at < UNTOLD_SECONDS}
        self._alerted_at = recent | dict.fromkeys(places, now)

    def _forget(self, now: float) -> None:
        old = [place for place, (_, at) in self._oddities.items() if now - at > TOLD_SECONDS]
        for place in old:
            del self._oddities[place]
        for place in [place for place, at in self._logged_at.items() if now - at > SILENT_SECONDS]:
            del self._logged_at[place]


# of this process: all its threads meet the same Redis
ODDITIES = Oddities()  # what neither a worker nor a scheduler of this fleet writes
OTHER_KEYS = Oddities("keys_differ")  # devices whose workers have not the keys of this scheduler
