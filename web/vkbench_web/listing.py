"""A table as its URL asks for it: filtered, sorted, a page of it, or whole as CSV or JSON.

`?sort=-hot_seconds&kernel=mul_mat*&state=passed&page=2`: `sort` names a column, with a minus for
the largest first; every column's key filters by it; `q` looks for words in all texts; `format=csv`
and `format=json` give what the filters leave, in base units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import translate
from math import ceil, inf
from re import IGNORECASE, compile
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from vkbench.errors import UnknownName, UsageError
from vkbench.words import names
from vkbench_tables.table import EMPTY, Cell, Column, Table, ValueKind
from vkbench_tables.written import text
from vkbench_web.api.answers import KINDS, answer

PAGE_ROWS = 100
LONG = 40  # characters of a text that may wrap
FEW = 12  # different texts of a column that a filter offers as a choice
FORMATS = KINDS
_USUAL = {  # values in the units of tables that have many pages: us, MB, GB/s, TFLOP/s
    ValueKind.SECONDS: 1e-5,
    ValueKind.BYTES: 1e7,
    ValueKind.BYTE_RATE: 1e10,
    ValueKind.FLOP_RATE: 1e13,
    ValueKind.OP_RATE: 1e13,
}
_OPTIONS = ("sort", "page", "q", "format")

Row = Mapping[str, Cell]
Link = Callable[[Row], str | None]
Said = Callable[[Row], str]


@dataclass(frozen=True, kw_only=True)
class ShownColumn:
    """A column of the page: its heading with the unit, its cells, how it is sorted now."""

    key: str
    heading: str
    cells: Sequence[str]
    is_number: bool
    is_long: bool  # its texts may wrap
    is_minor: bool  # left out on a phone
    direction: str  # ascending | descending | none
    sort_url: str
    choices: Sequence[str]  # texts to filter by, where they are few
    filter: str


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A table with what its URL asks for."""

    name: str
    table: Table  # all rows that the filters leave, sorted
    total: int  # rows without the filters
    page: int
    path: str
    query: Mapping[str, str]  # of the URL
    own: Sequence[str] = ()  # options of the page, which clearing the filters keeps
    links: Mapping[str, Link] = field(default_factory=dict)  # by column key
    texts: Mapping[str, Said] = field(default_factory=dict)  # other words for a column's cells
    is_sortable: bool = True

    @property
    def rows(self) -> Sequence[Row]:
        """The rows of this page."""
        return self.table.rows[(self.page - 1) * PAGE_ROWS : self.page * PAGE_ROWS]

    @property
    def pages(self) -> int:
        """How many pages there are."""
        return max(1, ceil(len(self.table.rows) / PAGE_ROWS))

    @property
    def columns(self) -> list[ShownColumn]:
        """What the page shows: columns that are not hidden and not empty."""
        rows = self.table.rows
        shown = [c for c in self.table.columns if text.is_shown(c, rows) or c.key in self.query]
        return [self._column(column) for column in shown]

    def rows_for_unit(self, column: Column) -> Sequence[Row]:
        """Rows that choose a column's unit, which stays while people sort and turn pages."""
        return self.table.rows

    def url(self, **changes: object) -> str:
        """This table's URL with other options; an empty one is left out."""
        query = {**self.query, **{name: str(value) for name, value in changes.items()}}
        if "page" not in changes:
            query.pop("page", None)
        kept = {name: value for name, value in query.items() if value != ""}
        return f"{self.path}?{urlencode(kept)}" if kept else self.path

    @property
    def is_narrowed(self) -> bool:
        """Whether the URL asks for more than the page itself."""
        return any(name not in self.own for name in self.query)

    @property
    def whole_url(self) -> str:
        """This page without filters, in the table's own order."""
        return self.url(**{name: "" for name in self.query if name not in self.own})

    def link(self, key: str, index: int) -> str | None:
        """Where a cell of this page leads to."""
        made = self.links.get(key)
        return made(self.rows[index]) if made else None

    def download(self) -> Response | None:
        """The table as a file, where the URL asks for one."""
        kind = self.query.get("format", "")
        return file_of(self.table, self.name, kind) if kind else None

    def _column(self, column: Column) -> ShownColumn:
        heading, cells = text.column_text(column, self.rows, self.rows_for_unit(column))
        if column.key in self.texts:
            cells = [self.texts[column.key](row) for row in self.rows]
        elif column.kind is ValueKind.TIME:  # a page has readers in many places: no local time
            heading = f"{heading} (UTC)"
            cells = [_moment(row.get(column.key)) for row in self.rows]
        sort = self.query.get("sort", "")
        is_up, is_down = sort == column.key, sort == f"-{column.key}"
        largest_first = text.is_number(column) or column.kind is ValueKind.TIME
        turned = {True: "", False: "-"}[is_down if is_up or is_down else not largest_first]
        return ShownColumn(
            key=column.key,
            heading=heading or column.key,
            cells=[cell.strip() for cell in cells],
            is_number=text.is_number(column),
            is_long=column.prose or any(len(cell) > LONG for cell in cells),
            is_minor=column.rank.name == "MINOR",
            direction="ascending" if is_up else "descending" if is_down else "none",
            sort_url=self.url(sort=turned + column.key) if self.is_sortable else "",
            choices=_choices(column, self.table.rows),
            filter=self.query.get(column.key, ""),
        )


def file_of(table: Table, name: str, kind: str) -> Response:
    """A table as a file, `kind` being one of FORMATS."""
    file = answer(table, kind)
    file.headers["content-disposition"] = f'attachment; filename="vkbench-{name}.{kind}"'
    return file


def list_table(
    request: Request,
    table: Table,
    *,
    name: str,
    links: Mapping[str, Link] | None = None,
    texts: Mapping[str, Said] | None = None,
    own: Sequence[str] = (),
) -> Listing:
    """The table as the URL of a request asks for it; `own` are options that the page reads.

    `texts` gives a column other words on the page; sorting, filters and downloads keep its values.
    """
    columns = {column.key: column for column in table.columns}
    query = asked_of(request, columns, own)
    rows = [row for row in table.rows if _fits(row, columns, query, own)]
    listing = Listing(
        name=name,
        table=replace(table, rows=_sort_rows(rows, columns, query.get("sort", ""))),
        total=len(table.rows),
        page=1,
        path=request.url.path,
        query=query,
        own=own,
        links=links or {},
        texts=texts or {},
    )
    return replace(listing, page=min(page_number(query.get("page", "1")), listing.pages))


def asked_of(
    request: Request, columns: Mapping[str, Column], own: Sequence[str] = ()
) -> dict[str, str]:
    """The options of a URL; UnknownName for one that is no column and no option."""
    params = request.query_params.items()
    query = {key: value for key, value in params if value != "" and key != "part"}
    known = [*columns, *_OPTIONS, *own]
    for key in query:
        if key not in known:
            raise UnknownName("column or option", key, names.nearest(key, known))
    if query.get("format", "csv") not in FORMATS:
        raise UsageError(f"format is {' or '.join(FORMATS)}")
    return query


def page_number(number: str) -> int:
    """The number of a page, from 1."""
    if not (number.isascii() and number.isdecimal() and int(number[:9]) > 0):
        raise UsageError("page is a number from 1")
    return int(number[:9])


def _fits(
    row: Row, columns: Mapping[str, Column], query: Mapping[str, str], own: Sequence[str]
) -> bool:
    for key, pattern in query.items():
        if (
            key in columns
            and key not in (*own, *_OPTIONS)
            and not _matches(columns[key], row, pattern)
        ):
            return False
    words = query.get("q", "").casefold().split()
    if not words:
        return True
    texts = " ".join(_cell_text(column, row) for column in columns.values()).casefold()
    return all(word in texts for word in words)


def _matches(column: Column, row: Row, pattern: str) -> bool:
    if text.is_number(column):
        return _in_range(row.get(column.key), pattern)
    cell_text = _cell_text(column, row)
    return any(_is_like(cell_text, part) for part in alternatives(pattern))


def alternatives(pattern: str) -> list[str]:
    """The texts of a filter, split at commas, and the whole, as names may have commas."""
    return [pattern, *(part.strip() for part in pattern.split(","))]


def _is_like(cell_text: str, pattern: str) -> bool:
    """Whether a text equals a pattern, or matches it as a glob."""
    return cell_text == pattern or bool(compile(translate(pattern), IGNORECASE).match(cell_text))


def _in_range(value: Cell, pattern: str) -> bool:
    low, high = bounds(pattern)
    return isinstance(value, int | float) and low <= value <= high


def bounds(pattern: str) -> tuple[float, float]:
    """Read `3`, `>3`, `<3` or `1..3`, in base units: the lowest and the highest value."""
    low, dots, high = pattern.partition("..")
    try:
        if dots:
            limits = float(low or "-inf"), float(high or "inf")
        elif pattern[0] == ">":
            limits = float(pattern[1:]), inf
        elif pattern[0] == "<":
            limits = -inf, float(pattern[1:])
        else:
            limits = float(pattern), float(pattern)
    except ValueError as error:
        raise UsageError(f"'{pattern}' is no number, >number, <number or low..high") from error
    return limits


def _cell_text(column: Column, row: Row) -> str:
    return str(row.get(column.key)) if text.is_number(column) else text.text(column, row)


def _sort_rows(rows: list[Row], columns: Mapping[str, Column], sort: str) -> list[Row]:
    key = sort.removeprefix("-")
    if not key:
        return rows
    if key not in columns:
        raise UnknownName("column", key, names.nearest(key, list(columns)))
    known = [row for row in rows if row.get(key) not in EMPTY]
    unknown = [row for row in rows if row.get(key) in EMPTY]  # last, either way
    return sorted(known, key=lambda row: _order(row[key]), reverse=sort[0] == "-") + unknown


def _order(value: Cell) -> tuple[int, float, str]:
    if isinstance(value, int | float):
        return 0, float(value), ""
    return 1, 0.0, str(value).casefold()


def _moment(value: Cell) -> str:
    if not isinstance(value, int | float):
        return ""
    return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M")


def _choices(column: Column, rows: Sequence[Row]) -> list[str]:
    if text.is_number(column) or column.kind is ValueKind.TIME or column.prose:
        return []
    texts: set[str] = set()
    for row in rows:
        texts.add(text.text(column, row))
        if len(texts) > FEW:
            return []
    return sorted(texts - {""}) if 1 < len(texts) < len(rows) else []


@dataclass(frozen=True, kw_only=True)
class Paged(Listing):
    """A table whose rows are those of one page, or all for a download."""

    offered: Mapping[str, Sequence[str]] = field(default_factory=dict)  # values to filter by

    @property
    def rows(self) -> Sequence[Row]:
        """The rows of this page."""
        return self.table.rows

    @property
    def pages(self) -> int:
        """How many pages there are."""
        return max(1, ceil(self.total / PAGE_ROWS))

    def rows_for_unit(self, column: Column) -> Sequence[Row]:
        """The rows where they are all, else what is usual: a page does not know the others."""
        if self.total <= PAGE_ROWS or column.kind not in _USUAL:
            return self.table.rows
        return [{column.key: _USUAL[column.kind]}]

    @property
    def columns(self) -> list[ShownColumn]:
        """What the page shows, with the choices that the database offers."""
        return [
            replace(column, choices=self.offered.get(column.key, ())) for column in super().columns
        ]
