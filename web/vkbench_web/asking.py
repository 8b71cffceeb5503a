"""SQL of readers, a few statements at a time: for the page of queries and for the API."""

from __future__ import annotations

from threading import BoundedSemaphore

from vkbench_db.ask import readonly
from vkbench_db.ask.public import MOST_ROWS, MOST_SECONDS
from vkbench_db.errors import DatabaseUnreachable
from vkbench_tables.queried import answer
from vkbench_tables.table import Table
from vkbench_web.lab import Lab

AT_ONCE = 4  # statements, so that other pages still have threads
_places = BoundedSemaphore(AT_ONCE)


class Busy(DatabaseUnreachable):
    """Too many queries run at once: try again in a few seconds."""


def queried(lab: Lab, sql: str, limit: int = MOST_ROWS) -> Table:
    """The answer to one statement; QueryRefused where it reads more than the views."""
    bounds = readonly.Bounds(
        rows=min(limit, MOST_ROWS),
        seconds=MOST_SECONDS,
        is_public=True,
        as_superuser=lab.settings.query_as_superuser,
    )
    if not _places.acquire(timeout=MOST_SECONDS):
        raise Busy
    try:
        if lab.database() is None:
            return answer(*readonly.query_blank(sql, bounds))
        return answer(*readonly.query(lab.settings.database_url(), sql, bounds))
    finally:
        _places.release()
