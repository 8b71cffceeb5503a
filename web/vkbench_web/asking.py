"""SQL of readers, a few statements at a time: for the page of queries and for the API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore

from vkbench_db.ask.sql import readonly
from vkbench_db.ask.sql.public import MOST_ROWS, MOST_SECONDS
from vkbench_tables.queried import answer
from vkbench_tables.table import Table
from vkbench_web.errors import Busy
from vkbench_web.lab import Lab

AT_ONCE = 2  # statements that run, each on a processor
WAITING = 4  # statements that wait for one of these to end, each in a thread that pages lack
_running = BoundedSemaphore(AT_ONCE)
_admitted = BoundedSemaphore(AT_ONCE + WAITING)


def run_query(lab: Lab, sql: str, limit: int = MOST_ROWS) -> Table:
    """The answer to one statement; QueryRefused where it reads more than the views."""
    bounds = readonly.Bounds(rows=min(limit, MOST_ROWS), seconds=MOST_SECONDS, is_public=True)
    settings = lab.settings
    with _place():
        if lab.database() is None:
            return answer(*readonly.query_blank(sql, bounds))
        return answer(
            *readonly.query(settings.query_database or settings.database_url(), sql, bounds)
        )


@contextmanager
def _place() -> Iterator[None]:
    """Hold one of the places for running statements; Busy if too many wait, or for too long."""
    if not _admitted.acquire(blocking=False):
        raise Busy
    try:
        if not _running.acquire(timeout=MOST_SECONDS):
            raise Busy
        try:
            yield
        finally:
            _running.release()
    finally:
        _admitted.release()
