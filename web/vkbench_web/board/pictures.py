"""Pictures of a board: rows of groups with where their timings lie, and a case's badge.

A board has hundreds of thousands of such rows, and nothing in them but their names needs to be
escaped: so one string is made of each, where a template would take a dozen steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log
from typing import Final

from markupsafe import Markup, escape

from vkbench_detection.board.standings import Group
from vkbench_web.shell import cut, seconds, significant

WIDTH: Final = 200.0
_EDGE: Final = 3.0
_CHARACTER: Final = 6.6  # pixels of a letter in a badge, about
_ROOM: Final = 12.0
_LEAST_RATIO: Final = 1.05  # of the scale's ends: less would make mountains of noise


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A logarithmic scale that several groups share."""

    low: float
    high: float

    @classmethod
    def of(cls, groups: Iterable[Group]) -> Scale:
        """The scale that has room for all groups."""
        ends = [(group.shares[0], group.shares[-1]) for group in groups]
        low, high = min(low for low, _ in ends), max(high for _, high in ends)
        pad = max(1.0, _LEAST_RATIO / (high / low)) ** 0.5
        return cls(low=low / pad, high=high * pad)

    def places(self, values: Sequence[float]) -> list[float]:
        """Where times lie on the scale."""
        to_edge = (WIDTH - 2 * _EDGE) / log(self.high / self.low)
        return [round(_EDGE + to_edge * log(value / self.low), 1) for value in values]


def draw_groups(groups: Sequence[Group], whole: Group, scale: Scale) -> Markup:
    """The rows of a table: how often each group was timed, its times, and a box of them."""
    return Markup("\n".join(_draw_group(group, whole, scale) for group in groups))


def _draw_group(group: Group, whole: Group, scale: Scale) -> str:
    name = _escape_name(group.name)
    p5, p25, p50, p75, p95 = scale.places(group.shares)
    cells = (
        *(group.count, group.devices, seconds(group.shares[1]), seconds(group.median)),
        *(seconds(group.shares[3]), significant(group.median / whole.median)),
    )
    numbers = "".join(f'<td class="number">{cell}</td>' for cell in cells)
    return (
        f'<tr><th scope="row" class="case">{name}</th>{numbers}'
        f'<td><svg class="box" viewBox="0 0 {WIDTH:g} 12" width="{WIDTH:g}" height="12" role="img"'
        f' aria-label="{name}: where 90 % of its timings lie">'
        f'<line x1="{p5}" x2="{p95}" y1="6" y2="6"/>'
        f'<rect x="{p25}" y="2" width="{round(max(p75 - p25, 1), 1)}" height="8"/>'
        f'<line class="middle" x1="{p50}" x2="{p50}" y1="0" y2="12"/></svg></td></tr>'
    )


@lru_cache(maxsize=5000)
def _escape_name(name: str) -> str:
    return str(escape(cut(name)))


@dataclass(frozen=True, kw_only=True)
class Badge:
    """A label and a value beside each other."""

    label: str
    value: str

    @property
    def widths(self) -> tuple[int, int]:
        """How many pixels wide the label and the value are."""
        return _width(self.label), _width(self.value)


def _width(text: str) -> int:
    return round(len(text) * _CHARACTER + _ROOM)
