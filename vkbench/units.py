"""Numbers for people: base units in, one scale for a whole column out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_TIME = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_RATE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def seconds_column(values: Sequence[float | None]) -> tuple[str, list[str]]:
    """(unit, cells) for durations: the scale suits the median value."""
    return _column(values, _TIME, "")


def rate_column(values: Sequence[float | None], unit: str) -> tuple[str, list[str]]:
    """(unit, cells) for rates such as B/s or FLOP/s."""
    return _column(values, _RATE, unit)


def significant(value: float, digits: int = 4) -> str:
    """A number with `digits` significant figures and no exponent while it is readable."""
    if value == 0:
        return "0"
    if not 1e-3 <= abs(value) < 1e7:
        return f"{value:.{digits - 1}e}"
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    return f"{value:.{max(0, digits - whole)}f}"


def _column(
    values: Sequence[float | None], scales: Sequence[tuple[float, str]], unit: str
) -> tuple[str, list[str]]:
    known = sorted(abs(v) for v in values if v)
    middle = known[len(known) // 2] if known else 1.0
    scale, prefix = next(((s, p) for s, p in scales if middle >= s), scales[-1])
    show: Callable[[float | None], str] = lambda v: "" if v is None else significant(v / scale)
    return prefix + unit, [show(value) for value in values]
