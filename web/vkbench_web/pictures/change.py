"""A change as a picture: the results before it and from it on, each side with its level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from vkbench.words.units import seconds_column
from vkbench_db.ask.both_sides import BothSides, TimedResult

LEAST_RANGE = 0.05  # of the values: less would make mountains of noise
EDGE = 3.0  # that points keep from the border


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large a picture is, and how large its points are."""

    width: float
    height: float
    radius: float


SPARK = Size(width=112.0, height=28.0, radius=1.6)  # in a row of a table
SMALL = Size(width=320.0, height=96.0, radius=2.0)  # of a device


@dataclass(frozen=True, kw_only=True)
class ChangePicture:
    """A picture of a change, in coordinates of its size."""

    size: Size
    before: Sequence[tuple[float, float]]
    after: Sequence[tuple[float, float]]
    middle: float  # where the change is
    old_height: float  # of the level before
    new_height: float
    words: str  # "10.03 → 10.95 us"
    began: float  # when the first of these results was measured
    ended: float


def draw_change(both: BothSides, size: Size) -> ChangePicture | None:
    """The picture of a change; None without results on both sides.

    The results stand in their order, with the change in the middle: nights without work leave no
    gap.
    """
    old, new = ([result.seconds for result in side] for side in (both.before, both.after))
    if not old or not new:
        return None
    least, most = min(*old, *new), max(*old, *new)
    pad = max(0.0, LEAST_RANGE * most - (most - least)) / 2
    low, high = least - pad, most + pad

    def place_up(seconds: float) -> float:
        share = (seconds - low) / (high - low) if high > low else 0.5
        return round(size.height - EDGE - share * (size.height - 2 * EDGE), 1)

    middle = size.width / 2
    return ChangePicture(
        size=size,
        before=[(x, place_up(y)) for x, y in _spread(both.before, EDGE, middle - EDGE)],
        after=[(x, place_up(y)) for x, y in _spread(both.after, middle + EDGE, size.width - EDGE)],
        middle=middle,
        old_height=place_up(median(old)),
        new_height=place_up(median(new)),
        words=name_step(median(old), median(new)),
        began=both.before[0].measured_at,
        ended=both.after[-1].measured_at,
    )


def name_step(old: float, new: float) -> str:
    """Both levels in one unit: 10.03 → 10.95 us."""
    unit, (before, after) = seconds_column([old, new])
    return f"{before.strip()} → {after.strip()} {unit}"


def _spread(results: Sequence[TimedResult], begin: float, end: float) -> list[tuple[float, float]]:
    """Results at equal distances: where each stands across, and its seconds."""
    gaps = max(1, len(results) - 1)
    lone = (begin + end) / 2
    return [
        (
            round(begin + (end - begin) * place / gaps, 1) if len(results) > 1 else lone,
            result.seconds,
        )
        for place, result in enumerate(results)
    ]
