"""Whether a GPU's clock is still up, so that a few launches are warm-up enough before timing.

A clock climbs under load without a break: an NVIDIA H200's from 345 to 1980 MHz in 0.3 to 0.4 s.
When it falls, the time since the last load does not tell: it stays up through 1.5 s of idleness
after a whole second of load, and falls step by step, within a second, where light jobs follow each
other. So it is measured: a kernel of a fixed number of cycles takes as long as after a whole
warm-up, or longer (docs/decisions/2026-11-22-warm-up.md).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

WARM_SECONDS: Final = 0.5  # of load, after which a clock is up
_ALIKE: Final = 0.02  # above the least seconds of the gauge: still the same clock
# How often the gauge is read: one reading near the least says that the clock is up, as the host's
# clock may lengthen any of them by 5 %. More before a timing, where the clock may still climb.
_READINGS_BEFORE, _READINGS_AFTER = 4, 2


class Load:
    """The clock of one device; without a gauge it counts as fallen whenever one asks."""

    def __init__(self, gauge: Callable[[], float] | None = None) -> None:
        self._gauge = gauge
        self._least = inf  # seconds of the gauge after a whole warm-up
        self._is_whole = False  # the last warm-up
        self._fell = False

    def is_up(self) -> bool:
        """Whether a few launches are warm-up enough, and not a whole one."""
        self._is_whole = False
        return not self._fell and self._is_at_top(_READINGS_BEFORE)

    def note_warm_up(self) -> None:
        """Note that a whole warm-up has ended just now."""
        self._is_whole, self._fell = True, False
        if self._gauge:
            self._least = min(self._least, self._gauge())

    def stayed_up(self) -> bool:
        """Whether the clock stayed up while something was timed; if not, a whole warm-up is due.

        After a whole warm-up the answer is yes: what the clock does then is the kernel's own doing,
        such as reaching the limit of power.
        """
        needs_no_reading = self._is_whole or self._gauge is None
        self._fell = not (needs_no_reading or self._is_at_top(_READINGS_AFTER))
        return not self._fell

    def _is_at_top(self, readings: int) -> bool:
        gauge, least = self._gauge, self._least
        if gauge is None or least == inf:
            return False
        return any(gauge() <= least * (1 + _ALIKE) for _ in range(readings))
