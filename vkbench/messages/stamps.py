"""Stamps: the time and number of a message, by which old and repeated ones are refused.

All hosts go by one clock, that of Redis: how wrong their own are does not matter. Numbers rise with
each message, over restarts too, for they follow that clock's microseconds; so those of several
senders about one place are in order as well.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final, Protocol

from vkbench.errors import VkbenchError

LATE_SECONDS: Final = 10.0  # under way; or ahead, after another server of Redis took over
SKEW_SECONDS: Final = 5  # by which a host's clock may be wrong before people are told
FORGOTTEN_SECONDS: Final = 120.0  # after which the age alone tells: longer than a stamp is good for


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """When a message was sent, in seconds by the clock of Redis, and its number."""

    sent: float = 0.0  # 0 in messages of versions that knew no stamps
    number: int = 0


UNSTAMPED: Final = Stamp()


class Stale(VkbenchError):
    """A message is too old, or an older one than was heard before."""


class Clock(Protocol):
    """What tells the time: a client of Redis, which this module does not import."""

    def time(self) -> Any:
        """Seconds, and the microseconds beyond them."""


class Stamps:
    """Makes the stamps of one sender."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._number = 0

    def next(self) -> Stamp:
        """A stamp of now; RedisError if Redis does not say what time it is."""
        seconds, microseconds = self._clock.time()
        # Also where the clock went back: another server took over.
        self._number = max(self._number + 1, seconds * 10**6 + microseconds)
        return Stamp(sent=seconds + microseconds / 1e6, number=self._number)


def skew(sent: float) -> int:
    """By how many seconds this host's clock is ahead of that of Redis; 0 if by few."""
    ahead = time.time() - sent
    # Rounded, so that the same is said each second of a clock that is wrong by the same.
    return round(ahead / SKEW_SECONDS) * SKEW_SECONDS if abs(ahead) > SKEW_SECONDS else 0


def describe_skew(seconds: int) -> str:
    """How far a clock is wrong, in words."""
    return f"about {abs(seconds)} s {'ahead of' if seconds > 0 else 'behind'} that of Redis"


def check_age(stamp: Stamp, now: float, most: float) -> None:
    """Stale unless a message was sent within `most` seconds, give or take what it is under way."""
    if not stamp.sent:
        raise Stale("it does not say when it was sent: its sender is of an older version")
    age = now - stamp.sent
    if age > most + LATE_SECONDS:
        raise Stale(f"it was sent {age:.0f} s ago: someone sends it again")
    if age < -LATE_SECONDS:
        raise Stale(f"it was sent {-age:.0f} s from now, by the clock of Redis")


class Newest:
    """The number of the newest message about each place; older ones are no news any more."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, float]] = {}  # place -> least number, since (monotonic)

    def require(self, place: str, stamp: Stamp) -> None:
        """Stale if a newer message was heard."""
        least, at = self._known.get(place, (0, float("-inf")))
        if stamp.number < least and time.monotonic() - at < FORGOTTEN_SECONDS:
            raise Stale("it is older than what was heard before: someone sends it again")

    def check(self, place: str, stamp: Stamp) -> None:
        """Stale if a newer message was heard, else this is the newest; it may be read again."""
        self.require(place, stamp)
        self._known[place] = (stamp.number, time.monotonic())

    def end(self, place: str, number: int = 0) -> None:
        """Forget a place: only messages sent from now on count."""
        least, _ = self._known.get(place, (0, 0.0))
        if known := max(least, number):
            self._known[place] = (known + 1, time.monotonic())

    def forget(self) -> None:
        """Forget numbers of messages so old that their age alone gives them away."""
        now = time.monotonic()
        kept = {
            place: (number, at)
            for place, (number, at) in self._known.items()
            if now - at < FORGOTTEN_SECONDS
        }
        self._known = kept
