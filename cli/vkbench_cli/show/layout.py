"""How a table of text fits a width: what wraps, what goes under its row, what is left out.

One rule for all tables. Numbers and times are never wrapped nor shortened. In this order, until the
rest fits:

1. headings and texts wrap, as long as a text keeps a readable width
2. minor columns are left out, from the right
3. prose goes under its row, from the right
4. texts wrap down to a few characters
5. usual columns are left out, from the right, and at last key columns; the first one stays
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest

from vkbench_tables.table import Rank

GAP = "  "
INDENT = "    "  # of what stands under its row
NAME, PROSE = 40, 30  # width that a text keeps while something else can give way
NARROW_NAME, NARROW_PROSE = 12, 20  # and after that
LONGEST_PIECE = 24  # a word that is longer may be broken
# Where a text is broken, the first way that makes its pieces fit: between words, between the parts
# of a case's name or a path, within these. A version is not broken.
_BREAKS = tuple(
    re.compile(joint)
    for joint in (r"(?<=\s)", r"(?<=[\s/])", r"(?<=[\s/_,;:=])|(?<=[.-])(?=[^\W\d])")
)
_PARTS = _BREAKS[1]


@dataclass(frozen=True, kw_only=True, eq=False)
class Strip:
    """One column of a table as text."""

    name: str  # what it is called where it is left out
    heading: str
    cells: Sequence[str]
    is_rigid: bool = False  # numbers and times
    is_right: bool = False  # aligned to the right
    is_prose: bool = False  # whole sentences
    is_joined: bool = False  # with the column before it, or not at all
    rank: Rank = Rank.USUAL

    @cached_property
    def natural(self) -> int:
        """The width that it has where there is room."""
        return max(map(len, (self.heading, *self.cells)))

    @cached_property
    def roomy(self) -> int:
        """The width that it keeps while something else can give way."""
        word = max(map(len, self.heading.split()), default=0)
        if self.is_rigid:
            return max(word, *map(len, self.cells))
        return max(word, min(self.natural, PROSE if self.is_prose else NAME))

    @cached_property
    def tight(self) -> int:
        """The width below which columns are left out instead."""
        if self.is_rigid:
            return self.roomy
        word = max(map(len, self.heading.split()), default=0)
        longest = max(len(piece) for cell in self.cells for piece in _PARTS.split(cell))
        floor = NARROW_PROSE if self.is_prose else NARROW_NAME
        return max(word, min(self.natural, max(floor, min(longest, LONGEST_PIECE))))


@dataclass(frozen=True, kw_only=True)
class TableLayout:
    """Where each column of a table went."""

    beside: Sequence[Strip]
    widths: Sequence[int]
    under: Sequence[Strip] = ()
    left_out: Sequence[str] = ()  # names
    room: int = 0  # of a line; 0 is no limit


def spacious(strips: Sequence[Strip]) -> TableLayout:
    """Every column as wide as it likes."""
    return TableLayout(beside=strips, widths=[strip.natural for strip in strips])


def fit_table(strips: Sequence[Strip], width: int) -> TableLayout:
    """The layout no wider than `width` that leaves out or moves the fewest columns."""
    if not strips:
        return spacious(strips)
    for beside, under, narrow in _sacrifices(strips):
        widths = _widths(beside, width, narrow=narrow)
        if widths is not None:
            return _refill_layout(strips, beside, under, width, narrow=narrow)
    first, *rest = strips  # a number that is wider than the terminal
    return replace(spacious([first]), left_out=[strip.name for strip in rest], room=width)


def lines(layout: TableLayout) -> Iterator[str]:
    """Headings, then the lines of every row."""
    heads = [wrap_text(strip.heading, width) for strip, width in _columns(layout)]
    height = max(map(len, heads), default=0)
    yield from _side_by_side(layout, [[""] * (height - len(head)) + head for head in heads])
    for row in range(max((len(strip.cells) for strip in layout.beside), default=0)):
        cells = [wrap_text(strip.cells[row], width) for strip, width in _columns(layout)]
        yield from _side_by_side(layout, cells)
        for strip in layout.under:
            if strip.cells[row]:
                text = f"{strip.heading}: {strip.cells[row]}" if strip.heading else strip.cells[row]
                yield from (
                    INDENT + line for line in wrap_and_indent(text, layout.room - len(INDENT))
                )


def wrap_text(text: str, width: int) -> list[str]:
    """Text in lines of at most `width`, broken between words or the parts of a name."""
    if len(text) <= width:
        return [text]
    lines = [""]
    for part in _parts(text, width):
        if len(lines[-1]) + len(part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return [line.rstrip() for line in lines if line.strip()]


def wrap_and_indent(text: str, width: int) -> list[str]:
    """Text in lines of at most `width`; all but the first begin further in."""
    first, *_ = wrap_text(text, width)
    rest = text[len(first) :].lstrip()
    return [first, *(INDENT + line for line in wrap_text(rest, width - len(INDENT)) if rest)]


def _sacrifices(strips: Sequence[Strip]) -> Iterator[tuple[list[Strip], list[Strip], bool]]:
    """Layouts that give up more and more: columns side by side, columns below, narrow or not."""
    beside, under = list(strips), list[Strip]()
    yield beside, under, False
    for group in _from_the_right(strips, Rank.MINOR):
        beside = _without(beside, group)
        yield beside, under, False
    for strip in [strip for strip in reversed(beside[1:]) if strip.is_prose]:
        beside, under = _without(beside, [strip]), [strip, *under]
        yield beside, under, False
    yield beside, under, True
    for group in (*_from_the_right(beside, Rank.USUAL), *_from_the_right(beside, Rank.KEY)):
        beside = _without(beside, group)
        yield beside, under, True


def _from_the_right(strips: Sequence[Strip], rank: Rank) -> list[list[Strip]]:
    """Groups of columns to leave out together, from the right; the first column is never in one."""
    return [group for group in reversed(_groups(strips)[1:]) if group[0].rank is rank]


def _groups(strips: Sequence[Strip]) -> list[list[Strip]]:
    """Groups of columns: each with those joined to it."""
    groups: list[list[Strip]] = []
    for strip in strips:
        if groups and strip.is_joined:
            groups[-1].append(strip)
        else:
            groups.append([strip])
    return groups


def _without(strips: Sequence[Strip], group: Sequence[Strip]) -> list[Strip]:
    return [strip for strip in strips if strip not in group]


def _refill_layout(
    strips: Sequence[Strip], beside: list[Strip], under: list[Strip], width: int, *, narrow: bool
) -> TableLayout:
    """Put back the columns that fit after all, the first ones first.

    No text wraps for a minor column.
    """
    for group in _groups(strips):
        if group[0] not in beside and group[0] not in under:
            more = [strip for strip in strips if strip in beside or strip in group]
            tight = narrow and group[0].rank is not Rank.MINOR
            beside = more if _widths(more, width, narrow=tight) is not None else beside
    return TableLayout(
        beside=beside,
        widths=_widths(beside, width, narrow=narrow) or [],
        under=under,
        left_out=[strip.name for strip in strips if strip not in beside and strip not in under],
        room=width,
    )


def _widths(strips: Sequence[Strip], width: int, *, narrow: bool) -> list[int] | None:
    """The width of each column, names first given what is over; None if they do not fit."""
    widths = [strip.tight if narrow else strip.roomy for strip in strips]
    over = width - sum(widths) - len(GAP) * (len(strips) - 1)
    if over < 0:
        return None
    for is_first in (lambda s: not s.is_prose and not s.is_rigid, lambda s: s.is_prose, bool):
        places = [place for place, strip in enumerate(strips) if is_first(strip)]
        over = _widen(strips, widths, places, over)
    return widths


def _widen(strips: Sequence[Strip], widths: list[int], places: Sequence[int], over: int) -> int:
    """Widen the columns at these places, first the one that lacks most."""
    while over and (lacking := [p for p in places if widths[p] < strips[p].natural]):
        widths[max(lacking, key=lambda place: strips[place].natural - widths[place])] += 1
        over -= 1
    return over


def _columns(layout: TableLayout) -> Iterator[tuple[Strip, int]]:
    return zip(layout.beside, layout.widths, strict=True)


def _side_by_side(layout: TableLayout, cells: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of one row, whose cells may have several."""
    for parts in zip_longest(*cells, fillvalue=""):
        padded = (
            part.rjust(width) if strip.is_right else part.ljust(width)
            for part, (strip, width) in zip(parts, _columns(layout), strict=True)
        )
        yield GAP.join(padded).rstrip()


def _parts(text: str, width: int, breaks: Sequence[re.Pattern[str]] = _BREAKS) -> Iterator[str]:
    """Split a text into the largest pieces that fit."""
    if len(text.rstrip()) <= width:
        yield text
    elif not breaks:
        yield from (text[at : at + width] for at in range(0, len(text), width))
    else:
        first, *finer = breaks
        for piece in first.split(text):
            yield from _parts(piece, width, finer)
