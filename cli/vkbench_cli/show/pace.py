"""Rates of progress and the time left, as numbers and words."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

WINDOW_SECONDS = 60.0  # a rate is that of the last minute
MOST_NAMED = 4  # lanes that a line tells one by one


@dataclass(frozen=True, kw_only=True)
class Lane:
    """What one device has to do, and has done."""

    name: str
    total: int
    done: int
    wrong: int = 0
    failed: int = 0
    left_seconds: float = 0.0  # estimated time of the jobs that are left; 0 without an estimate

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do."""
        return self.done >= self.total


def sum_of(lanes: Sequence[Lane], name: str) -> Lane:
    """All lanes as one."""
    return Lane(
        name=name,
        total=sum(lane.total for lane in lanes),
        done=sum(lane.done for lane in lanes),
        wrong=sum(lane.wrong for lane in lanes),
        failed=sum(lane.failed for lane in lanes),
        left_seconds=sum(lane.left_seconds for lane in lanes),
    )


class Pace:
    """The rate of one lane, from its latest counts."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, Lane]] = deque()

    def see(self, now: float, lane: Lane) -> None:
        """Note how far a lane is at a moment."""
        self._seen.append((now, lane))
        while len(self._seen) > 2 and now - self._seen[0][0] > WINDOW_SECONDS:
            self._seen.popleft()

    @property
    def rate(self) -> float | None:
        """Jobs a second; None until some have ended."""
        if len(self._seen) < 2:
            return None
        (began, first), (now, last) = self._seen[0], self._seen[-1]
        ended = last.done - first.done
        return ended / (now - began) if ended > 0 and now > began else None

    def seconds_left(self, now: float) -> float | None:
        """Seconds until the lane ends; None where nothing tells."""
        if not (rate := self.rate):
            return None
        (began, first), (seen, last) = self._seen[0], self._seen[-1]
        speed = (first.left_seconds - last.left_seconds) / (seen - began)
        needed = last.left_seconds / speed if speed > 0 else (last.total - last.done) / rate
        return max(0.0, needed - (now - seen))


def sentence(label: str, lanes: Sequence[Lane], rate: float | None, left: float | None) -> str:
    """`run 3: 120 of 456 done, 2 wrong, 3.1/s, 1:20 left`, and how far each lane is."""
    whole = sum_of(lanes, label)
    words = [f"{label}: {whole.done} of {whole.total} done", *trouble(whole)]
    words += [word for word in (format_rate(rate), remaining(left)) if word]
    return ", ".join(words)


def by_lane(lanes: Sequence[Lane]) -> str:
    """How far each of several lanes is, for the end of a line; "" for one."""
    if len(lanes) < 2:
        return ""
    open_ones = [lane for lane in lanes if not lane.is_done]
    named = [f"{lane.name} {lane.done} of {lane.total}" for lane in open_ones[:MOST_NAMED]]
    if more := len(open_ones) - len(named):
        named.append(f"{more} more")
    return f" ({', '.join(named)})" if named else ""


def trouble(lane: Lane) -> list[str]:
    """What ended badly: `2 wrong`, `1 failed`."""
    counts = {"wrong": lane.wrong, "failed": lane.failed}
    return [f"{count} {word}" for word, count in counts.items() if count]


def format_rate(rate: float | None) -> str:
    """A rate as people read it: `3.1/s`, or `12/min` where it is slow."""
    if rate is None:
        return ""
    if rate >= 10:
        return f"{rate:.0f}/s"
    return f"{rate:.1f}/s" if rate >= 1 else f"{rate * 60:.1f}/min"


def remaining(seconds: float | None) -> str:
    """`1:20 left`, `2:03:00 left`."""
    return "" if seconds is None else f"{clock(seconds)} left"


def clock(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any."""
    minutes, rest = divmod(ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
