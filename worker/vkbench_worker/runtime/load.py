"""Whether a device has been under load, so that its clock is up.

An NVIDIA H200 climbs from 345 to 1980 MHz in 0.3 to 0.4 s of load without a break. Then it keeps
its clock, to a thousandth, through 1.5 s of idleness; after 2.0 s it is at the bottom again. From
there, launches with breaks between them, busy an eighth of the time, do not raise it in 1.5 s. So
short launches count for nothing here, neither for a clock that climbs nor for one that is up.
"""

from __future__ import annotations

import time
from math import inf
from typing import Final

from vkbench.device import NVIDIA

WARM_SECONDS: Final = 0.5  # of load, after which a clock is up
NVIDIA_KEEPS_SECONDS: Final = 1.2  # its clock, without load


class Load:
    """The load of one device."""

    def __init__(self, vendor_id: int) -> None:
        self._keeps_seconds = NVIDIA_KEEPS_SECONDS if vendor_id == NVIDIA else 0.0  # not measured
        self._warm_until = -inf

    def note(self, seconds: float) -> None:
        """The device was busy without a break for so long, until now."""
        now = time.perf_counter()
        if seconds >= WARM_SECONDS or now - seconds < self._warm_until:
            self._warm_until = now + self._keeps_seconds

    @property
    def is_warm(self) -> bool:
        """Whether its clock is up."""
        return time.perf_counter() < self._warm_until
