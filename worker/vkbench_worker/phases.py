"""Where the seconds of a job go: `record_phases` sums up, by name, the phases within it.

A phase within another counts for itself alone, so that the phases add up to what a job spent.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Final

PREFIX: Final = "spent_"  # of a phase's name in a result's telemetry


class _Record:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._names: list[str] = []  # of the phases that have begun, the innermost last
        self._since = 0.0

    def begin(self, name: str) -> None:
        self._book()
        self._names.append(name)

    def end(self) -> None:
        self._book()
        self._names.pop()

    def _book(self) -> None:
        """Give the time since the last look to the innermost phase."""
        now = time.perf_counter()
        if self._names:
            name = self._names[-1]
            self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
        self._since = now


_CURRENT: ContextVar[_Record | None] = ContextVar("phases", default=None)


@contextmanager
def record_phases() -> Iterator[Mapping[str, float]]:
    """The seconds of each phase that runs within, by name."""
    record = _Record()
    token = _CURRENT.set(record)
    try:
        yield record.seconds
    finally:
        _CURRENT.reset(token)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Count what runs within as this phase of the job at hand, if its phases are recorded."""
    record = _CURRENT.get()
    if record is None:
        yield
        return
    record.begin(name)
    try:
        yield
    finally:
        record.end()


@contextmanager
def closing_stack() -> Iterator[ExitStack]:
    """A stack whose end is a phase of its own: a driver may take long to free memory."""
    with ExitStack() as stack:
        try:
            yield stack
        finally:
            with phase("closing"):
                stack.close()


def telemetry(seconds: Mapping[str, float]) -> Mapping[str, float]:
    """Phases as a result carries them."""
    return {PREFIX + name: spent for name, spent in seconds.items()}


def sum_phases(telemetries: Iterable[Mapping[str, float]]) -> Mapping[str, float]:
    """The phases of several results, which add up to what all of them spent."""
    seconds: dict[str, float] = defaultdict(float)
    for figures in telemetries:
        for name, value in figures.items():
            if name.startswith(PREFIX):
                seconds[name] += value
    return seconds
