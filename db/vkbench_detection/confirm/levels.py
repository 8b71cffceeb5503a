"""What a series was before a change: its level since the last confirmed one, and its movements.

A window of results would span two levels where a change came soon after another: a driver that
slows everything down, and returns after ten good nights, would seem never to have been better.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np
from sqlalchemy import Connection

from vkbench_detection.changes.change_point import ChangePoint
from vkbench_detection.changes.questions import level_jobs
from vkbench_detection.series.points import Point, points_from, points_until
from vkbench_detection.statistics.plainness import MOST_SINCE, is_plain
from vkbench_detection.statistics.ratios import Floats
from vkbench_detection.statistics.screen import Direction

KNOWN = 200  # results on each side of a change that are read
LEVEL = 30  # results before a change that it is held against
LASTING = 3  # results since a change, after which it is no busy night
LEAST_BEFORE = 8  # results of the series, which a few values of now can be held against


@dataclass(frozen=True, kw_only=True)
class Before:
    """The results before a change, as logarithms."""

    segment: Floats  # since the last confirmed change
    earlier: Floats  # those before it, less the levels that they had
    since: Floats  # the first results after the change

    @property
    def are_enough(self) -> bool:
        """Whether values of now can be held against them."""
        return len(self.segment) > 0 and len(self.segment) + len(self.earlier) >= LEAST_BEFORE

    @property
    def has_lasted(self) -> bool:
        """Whether a change was there for more than a night or two, in which a host may be busy."""
        return len(self.since) >= LASTING

    @property
    def seconds(self) -> list[float]:
        """The level in seconds; a short segment lies where it lies, and scatters as all do."""
        values = self.segment
        if len(values) < LEAST_BEFORE:
            values = np.concatenate([self.earlier + np.median(values), values])
        return [exp(value) for value in values[-LEVEL:]]

    def is_plain(self, fresh: Sequence[float]) -> bool:
        """Whether seconds of now are beyond what the series does by itself."""
        return is_plain(np.log(np.asarray(fresh)), self.segment, self.earlier, self.since)

    def can_be_plain(self, direction: Direction) -> bool:
        """Whether values of now could be, if they were as far off as any result since then."""
        if not len(self.since):
            return True
        farthest = self.since.max() if direction is Direction.SLOWER else self.since.min()
        return is_plain(np.asarray([farthest]), self.segment, self.earlier, self.since)


def before_change(tx: Connection, change: ChangePoint) -> Before:
    """The results of a series before a change of it."""
    known = points_until(tx, change.series_id, change.before_job, KNOWN)
    since = points_from(tx, change.series_id, change.after_job, KNOWN)[:MOST_SINCE]
    return levels(known, level_jobs(tx, change.series_id), since)


def levels(known: Iterable[Point], begins: Collection[int], since: Iterable[Point]) -> Before:
    """Results before a change, where a level begins with each of some jobs."""
    segments: list[list[float]] = [[]]
    for point in known:
        if point.job in begins:
            segments.append([])
        segments[-1].append(log(point.seconds))
    *earlier, segment = map(np.asarray, segments)
    centred = [values - np.median(values) for values in earlier if len(values)]
    return Before(
        segment=segment,
        earlier=np.concatenate([np.empty(0), *centred]),
        since=np.asarray([log(point.seconds) for point in since]),
    )
