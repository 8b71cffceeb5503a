"""A clock for tests of code that asks for the time."""

from __future__ import annotations


class Clock:
    """Seconds that pass only when a test adds to `now`."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now
