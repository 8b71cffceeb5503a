"""A few processes that share the work of a board: what is loaded before they begin, they share."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.pool import Pool
from typing import TypeVar

from vkbench.process import system

Part = TypeVar("Part")
Done = TypeVar("Done")


class Crew:
    """Processes that wait for work; none where one core does it all."""

    def __init__(self, pool: Pool | None, size: int) -> None:
        self._pool = pool
        self.size = size

    def share(self, work: Callable[[Part], Done], parts: Sequence[Part]) -> Iterator[Done]:
        """What became of each part, in their order; a single part is done by this process."""
        if self._pool is None or len(parts) < 2:
            return map(work, parts)
        return self._pool.imap(work, parts)


@contextmanager
def open_crew(size: int) -> Iterator[Crew]:
    """So many processes, which end with the block.

    They begin before any database is open, since SQLite's files must not pass into others.
    """
    if size < 2:
        yield Crew(None, 1)
        return
    gc.collect()
    gc.freeze()  # what is there stays where it is, so that its memory is shared
    try:
        with get_context("fork" if system.IS_LINUX else "spawn").Pool(size) as pool:
            yield Crew(pool, size)
    finally:
        gc.unfreeze()
