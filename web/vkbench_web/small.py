"""Draws a series as a small SVG picture: its timings over time, and its changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vkbench_db.ask.series import SeriesChange, SeriesPoint

WIDTH, HEIGHT = 320.0, 84.0
EDGE = 4.0  # that points keep from the border
LEAST_RANGE = 0.05  # of the values: less would make mountains of noise


@dataclass(frozen=True, kw_only=True)
class Small:
    """A small plot of a series, with the ranges of its axes."""

    spots: Sequence[tuple[float, float]]
    changes: Sequence[tuple[float, str, str]]  # where, its direction, in words
    low: float  # the shortest time, in seconds
    high: float  # the longest
    begin: float  # Unix seconds
    end: float

    width, height = WIDTH, HEIGHT


def small(points: Sequence[SeriesPoint], changes: Sequence[SeriesChange]) -> Small | None:
    """The picture of the results that count; None without any."""
    shown = [point for point in points if not point.flag]
    if not shown:
        return None
    moments = [point.measured_at or 0.0 for point in shown]
    values = [point.seconds for point in shown]
    least, most = min(values), max(values)
    pad = max(0.0, LEAST_RANGE * most - (most - least)) / 2
    low, high = least - pad, most + pad
    begin, end = min(moments), max(moments)

    def across(moment: float) -> float:
        return _place(moment, begin, end, EDGE, WIDTH - EDGE)

    first = {point.job: point.measured_at or 0.0 for point in shown}
    return Small(
        spots=[
            (across(moment), _place(value, low, high, HEIGHT - EDGE, EDGE))
            for moment, value in zip(moments, values, strict=True)
        ],
        changes=[
            (across(first[change.after_job]), change.direction, _describe_change(change))
            for change in changes
            if change.after_job in first and change.state == "confirmed"
        ],
        low=least,
        high=most,
        begin=begin,
        end=end,
    )


def _place(value: float, low: float, high: float, begin: float, end: float) -> float:
    share = (value - low) / (high - low) if high > low else 0.5
    return round(begin + share * (end - begin), 1)


def _describe_change(change: SeriesChange) -> str:
    by = f" by {change.ratio - 1:+.1%}" if change.ratio else ""
    return f"{change.direction}{by} ({change.cause})" if change.cause else f"{change.direction}{by}"
