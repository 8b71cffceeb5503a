"""Numbers for people: base units in, one scale for a whole column out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

_TIME = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_SPANS = ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute"), (1.0, "second"))
_RATE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def seconds_column(
    values: Sequence[float | None], like: Sequence[float | None] = ()
) -> tuple[str, list[str]]:
    """(unit, cells) for durations: the scale suits their median, or that of `like`."""
    return _column(values, _TIME, "", like)


def seconds_scale(values: Sequence[float]) -> tuple[float, str]:
    """(seconds, unit) by which durations are divided where they are drawn."""
    return _scale(values, _TIME)


def rate_column(
    values: Sequence[float | None], unit: str, like: Sequence[float | None] = ()
) -> tuple[str, list[str]]:
    """(unit, cells) for rates such as B/s or FLOP/s; `like` may choose the scale."""
    return _column(values, _RATE, unit, like)


def significant(value: float, digits: int = 4) -> str:
    """A number with `digits` significant figures and no exponent while it is readable."""
    if value == 0:
        return "0"
    if not 1e-3 <= abs(value) < 1e7:
        return f"{value:.{digits - 1}e}"
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])  # after rounding: 9.9999 is 10.00
    return f"{value:.{max(0, digits - 1 - exponent)}f}"


def ratio(value: float) -> str:
    """A ratio to its thousandth, where it is near 1: two decimals show 1.004 as no change."""
    return f"{value:.3f}" if 0.1 <= value < 10 else significant(value)


def count_of(count: int, noun: str) -> str:
    """1 change, 2 changes."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def span(seconds: float) -> str:
    """A length of time in its largest unit: 3 minutes, 1 day."""
    length, unit = next((scale for scale in _SPANS if seconds >= scale[0]), _SPANS[-1])
    return count_of(int(seconds // length), unit)


def list_counts(counts: Mapping[str, int], most: int | None = None) -> str:
    """How many of each, in their order: "copy 7, softmax 5"; of many names the first ones."""
    shown = ", ".join(f"{name} {count}" for name, count in islice(counts.items(), most))
    left = len(counts) - most if most is not None else 0
    return f"{shown}, {left} more" if left > 0 else shown


def _column(
    values: Sequence[float | None],
    scales: Sequence[tuple[float, str]],
    unit: str,
    like: Sequence[float | None],
) -> tuple[str, list[str]]:
    scale, prefix = _scale([v for v in like or values if v], scales)
    return prefix + unit, ["" if v is None else significant(v / scale) for v in values]


def _scale(values: Sequence[float], scales: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """The scale that suits the median value."""
    known = sorted(map(abs, values))
    middle = known[len(known) // 2] if known else 1.0
    return next((scale for scale in scales if middle >= scale[0]), scales[-1])
