"""The pipelines of a device: kept for another use, and those of coming jobs made ahead.

A GPU's driver takes 30 to 130 ms to make one, which is longer than most checks take; it holds
neither Python's lock nor one of its own meanwhile, so that threads make many at once. They only
make: one thread, the caller's, keeps, looks up and closes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Final, Generic, Protocol, TypeVar

from vkbench_worker.runtime.program import Program

MOST: Final = 256  # kept or being made; the one used longest ago goes first, but for held ones
MOST_AHEAD: Final = 64  # asked for and not yet taken


class Closable(Protocol):
    """What a cache of pipelines keeps, and closes."""

    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


class Pipelines(Generic[C]):
    """What `make` made of programs, closed at the end."""

    def __init__(self, make: Callable[[Program], C], threads: int) -> None:
        self._make = make
        self._kept: OrderedDict[Hashable, C] = OrderedDict()
        self._coming: dict[Hashable, Future[C]] = {}
        self._failed: set[Hashable] = set()  # made again only when a job needs them
        self._holders = 0
        self._held: set[Hashable] = set()  # those that were asked for since there is a holder
        self._pool = ThreadPoolExecutor(threads, "pipelines") if threads else None

    def __len__(self) -> int:
        return len(self._kept) + len(self._coming)

    @property
    def makes_ahead(self) -> bool:
        """Whether `make_ahead` does anything."""
        return self._pool is not None

    def get(self, program: Program) -> C:
        """The pipeline of a program; raises what its making raises."""
        self._failed.discard(program.key)
        pipeline = self._kept.pop(program.key, None) or self._take_made(program.key)
        if pipeline is None:
            self._make_room()
            pipeline = self._make(program)
        self._kept[program.key] = pipeline
        self._hold(program)
        return pipeline

    @contextmanager
    def hold(self) -> Iterator[None]:
        """What is asked for in this context stays until its end, however much it is.

        So recordings of a whole model may live as long as it does, which may need more pipelines
        than are kept otherwise.
        """
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if not self._holders:
                self._held.clear()
                self._make_room(0)

    def make_ahead(self, program: Program) -> None:
        """Begin to make a pipeline that `get` will be asked for; asking again is fine.

        What goes wrong shows when it is asked for: it is made once more then.
        """
        self._hold(program)
        if program.key in self._kept:
            self._kept.move_to_end(program.key)
        elif self._pool and program.key not in self._coming and program.key not in self._failed:
            self._take_in()
            if len(self._coming) < MOST_AHEAD:
                self._make_room()
                self._coming[program.key] = self._pool.submit(self._make, program)

    def stop_making(self) -> None:
        """Nothing is made any more, until more is asked for; what has not begun is forgotten."""
        for key in [key for key, made in self._coming.items() if made.cancel()]:
            del self._coming[key]
        wait(self._coming.values())
        self._take_in()

    def close(self) -> None:
        """Close all of them; waits for those that are being made."""
        self.stop_making()
        if self._pool:
            self._pool.shutdown()
        for pipeline in self._kept.values():
            pipeline.close()
        self._kept.clear()
        self._coming.clear()
        self._pool = None

    def _take_made(self, key: Hashable) -> C | None:
        """What was made ahead; None where that failed or has not begun."""
        coming = self._coming.pop(key, None)
        if coming is None or coming.cancel() or coming.exception():
            return None
        return coming.result()

    def _take_in(self) -> None:
        """Keep what is made: from among those, pipelines that no job asks for can go."""
        for key in [key for key, made in self._coming.items() if made.done()]:
            made = self._coming.pop(key)
            if made.exception():
                self._failed.add(key)
            else:
                self._kept[key] = made.result()

    def _hold(self, program: Program) -> None:
        if self._holders:
            self._held.add(program.key)

    def _make_room(self, coming: int = 1) -> None:
        """Close those that were asked for longest ago, but for what is held."""
        surplus = len(self) + coming - MOST
        if surplus > 0:
            for key in [key for key in self._kept if key not in self._held][:surplus]:
                self._kept.pop(key).close()
