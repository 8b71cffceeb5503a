"""Reports how far a long job is, such as one that loads a file, to whoever watches the process.

A module of its own, so that what loads weights need not know whether a runner does it or a test.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from vkbench_worker.protocol import Stage

PAUSE_SECONDS: Final = 0.25  # between two things that are told

Tell = Callable[[Stage], None]


def tell_nobody(stage: Stage) -> None:
    """Tell nobody how far a job is."""


_TELL: ContextVar[Tell] = ContextVar("tell", default=tell_nobody)


@contextmanager
def heard_by(tell: Tell) -> Iterator[None]:
    """Have `tell` hear of the stages within, of few on the way and of each that is over."""
    last = 0.0

    def now_and_then(stage: Stage) -> None:
        nonlocal last
        if stage.done >= stage.total or time.monotonic() - last >= PAUSE_SECONDS:
            last = time.monotonic()
            tell(stage)

    token = _TELL.set(now_and_then)
    try:
        yield
    finally:
        _TELL.reset(token)


def stage(what: str) -> Callable[[int, int], None]:
    """A function that tells how many bytes of how many are done."""
    return lambda done, total: _TELL.get()(Stage(what=what, done=done, total=total))
