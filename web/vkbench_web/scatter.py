"""Points and roofs on two logarithmic axes, as coordinates of an SVG picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log10

WIDTH, HEIGHT = 960.0, 460.0
LEFT, RIGHT, TOP, BOTTOM = 88.0, 150.0, 14.0, 52.0  # room for the words around the picture
NEAR, APART = 9.0, 17.0  # of roofs that share a word, and of words
_PREFIXES = {0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}


@dataclass(frozen=True, kw_only=True)
class Spot:
    """A point as it is measured."""

    x: float
    y: float
    title: str
    link: str
    tone: str = ""  # a class that colours it


@dataclass(frozen=True, kw_only=True)
class Roof:
    """A limit: y is at most `level`, or `slope` times x."""

    name: str
    level: float | None = None
    slope: float | None = None


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A power of ten on an axis."""

    at: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Line:
    """A roof in the picture."""

    name: str  # "" where the line above it says it too
    path: tuple[float, float, float, float]
    label_y: float
    title: str = ""  # the names of all that share the word

    @property
    def is_flat(self) -> bool:
        """Whether it is the same everywhere."""
        return self.path[1] == self.path[3]


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """A plot of points by two values."""

    x_name: str
    y_name: str
    spots: Sequence[tuple[float, float, Spot]]
    lines: Sequence[Line]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]

    width, height = WIDTH, HEIGHT
    left, right, top, bottom = LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM


@dataclass(frozen=True)
class _Axis:
    """An axis from one power of ten to another, and its ends in the picture."""

    low: int
    high: int
    begin: float
    end: float

    def place(self, value: float) -> float:
        share = (log10(value) - self.low) / (self.high - self.low)
        return round(self.begin + share * (self.end - self.begin), 1)

    def ticks(self) -> list[Tick]:
        step = 1 if self.high - self.low <= 8 else 2 if self.high - self.low <= 16 else 3
        powers = range(self.low, self.high + 1, step)
        return [Tick(at=self.place(10.0**p), text=_power(p)) for p in powers]


def scatter(spots: Sequence[Spot], roofs: Iterable[Roof], *, x: str, y: str) -> Scatter | None:
    """The picture of points under their roofs; `x` and `y` name the axes. None without points."""
    shown = [spot for spot in spots if spot.x > 0 and spot.y > 0]
    if not shown:
        return None
    known = [roof for roof in roofs if roof.level or roof.slope]
    levels = [roof.level for roof in known if roof.level]
    across = _axis([spot.x for spot in shown], LEFT, WIDTH - RIGHT)
    up = _axis([*(spot.y for spot in shown), *levels], HEIGHT - BOTTOM, TOP)
    top = max(levels, default=10.0**up.high)
    lines = [line for roof in known if (line := _line(roof, across, up, top))]
    return Scatter(
        x_name=x,
        y_name=y,
        spots=[(across.place(spot.x), up.place(spot.y), spot) for spot in shown],
        lines=_apart(lines),
        x_ticks=across.ticks(),
        y_ticks=up.ticks(),
    )


def _axis(values: Sequence[float], begin: float, end: float) -> _Axis:
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return _Axis(low, max(high, low + 1), begin, end)


def _line(roof: Roof, across: _Axis, up: _Axis, top: float) -> Line | None:
    least, most = 10.0**across.low, 10.0**across.high
    if roof.level:
        at = up.place(roof.level)
        return Line(name=roof.name, path=(LEFT, at, WIDTH - RIGHT, at), label_y=at)
    slope = roof.slope or 0.0
    begin = max(least, 10.0**up.low / slope)
    end = min(most, top / slope)
    if begin >= end:
        return None
    path = (across.place(begin), up.place(begin * slope))
    ends = (across.place(end), up.place(end * slope))
    return Line(name=roof.name, path=(*path, *ends), label_y=ends[1])


def _apart(lines: Sequence[Line]) -> list[Line]:
    """The lines with labels moved apart; flat roofs of nearly one height share a label."""
    flat = sorted((line for line in lines if line.is_flat), key=lambda line: line.label_y)
    apart = [line for line in lines if not line.is_flat]
    last = -100.0
    while flat:
        near = [line for line in flat if line.label_y - flat[0].label_y < NEAR]
        names = ", ".join(line.name for line in near)
        word = near[0].name if len(near) == 1 else f"{near[0].name} +{len(near) - 1}"
        last = max(near[0].label_y, last + APART)
        apart += [replace(line, name="") for line in near[1:]]
        apart.append(replace(near[0], name=word, title=names, label_y=last))
        del flat[: len(near)]
    return apart


def _power(power: int) -> str:
    if power < 3:
        return f"{10.0**power:g}"
    prefix = power // 3 * 3
    return f"{10 ** (power - prefix)} {_PREFIXES.get(prefix, f'e{prefix}')}"
