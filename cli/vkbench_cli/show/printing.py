"""One table and three printers: text for people, CSV and JSON for programs.

Values are in base units (seconds, bytes, FLOP/s, fractions); only the text printer scales them,
one scale a column.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from math import isfinite
from shutil import get_terminal_size
from typing import Annotated, TextIO

from typer import Option

from vkbench import markdown, units
from vkbench_cli.show.layout import Rank, Strip, fitted, indented, lines, spacious

Cell = object  # str, int, float, bool or None; lists and dictionaries where a program reads
SCHEMA_VERSION = 1
NARROWEST = 20  # columns of a terminal that tables fit into
READABLE = 50  # rows


@dataclass(frozen=True, kw_only=True)
class Output:
    """How a table is printed."""

    json: Annotated[
        bool,
        Option("--json", help="Print JSON; values are in base units (seconds, bytes, FLOP/s)."),
    ] = False
    csv: Annotated[
        bool, Option("--csv", help="Print CSV; values are in base units (seconds, bytes, FLOP/s).")
    ] = False
    wide: Annotated[
        bool,
        Option(
            "--wide", help="Print every column in full, even if lines are wider than the terminal."
        ),
    ] = False

    def most(self, limit: int | None) -> int | None:
        """How many rows to show: --limit, or READABLE as text; None is all."""
        if limit is None:
            return None if self.json or self.csv else READABLE
        return limit or None


Limit = Annotated[
    int | None,
    Option(
        metavar="N",
        min=0,
        help="Show at most N rows; 0 shows all. Default: 50 as text, all as JSON or CSV.",
    ),
]


class ValueKind(StrEnum):
    """What a column's values are, which decides how people see them."""

    TEXT = "text"
    COUNT = "count"
    NUMBER = "number"  # a bare number: an error measure, a ratio
    VALUE = "value"  # a number of unknown kind, shown unscaled
    SECONDS = "seconds"
    BYTES = "bytes"
    BYTE_RATE = "byte_rate"
    FLOP_RATE = "flop_rate"
    PERCENT = "percent"  # stored as a fraction
    TIME = "time"  # Unix seconds


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a table."""

    key: str  # in JSON and CSV, where it names the unit
    heading: str  # in text
    kind: ValueKind = ValueKind.TEXT
    rank: Rank = Rank.USUAL  # which columns are dropped first on a narrow terminal
    prose: bool = False  # sentences, which may be printed below their row
    joined: bool = False  # dropped only together with the column before it
    lifted: bool = False  # in text printed once above the table if all rows are equal
    hidden: bool = False  # only in JSON and CSV


@dataclass(frozen=True, kw_only=True)
class Table:
    """What a reading command found: columns, and rows by column key."""

    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Cell]]
    summary: Mapping[str, Cell] | None = None  # of all rows, for programs
    nothing: str = "nothing to show"  # printed on stderr if there are no rows


class ReaderLeft(Exception):
    """The reader of our output, such as `| head`, closed it; this is no error."""


def show(table: Table, output: Output, stream: TextIO | None = None) -> None:
    """Print a table the way that was asked for, on stdout."""
    stream = stream or sys.stdout
    if not table.rows:
        print(table.nothing, file=sys.stderr)
    try:
        if output.json:
            print_json(table, stream)
        elif output.csv:
            print_csv(table, stream)
        else:
            print_text(table, stream, 0 if output.wide else room(stream))
        stream.flush()
    except BrokenPipeError as error:
        raise ReaderLeft from error


def show_newest(table: Table, output: Output, most: int | None) -> None:
    """Print the first `most` rows of a table, and say so on stderr if there are more."""
    show(replace(table, rows=table.rows[:most]), output)
    if most and len(table.rows) > most:
        print(f"the newest {most}; --limit 0 shows all", file=sys.stderr)


def print_json(table: Table, stream: TextIO) -> None:
    """One object: schema_version, rows, a row a line, and the summary where there is one."""
    lines = (json.dumps({c.key: _plain(c, row) for c in table.columns}) for row in table.rows)
    rows = ",\n  ".join(lines)
    summary = "" if table.summary is None else f',\n"summary": {json.dumps(table.summary)}'
    stream.write(f'{{"schema_version": {SCHEMA_VERSION}, "rows": [')
    stream.write(f"\n  {rows}\n]{summary}}}\n" if rows else f"]{summary}}}\n")


def print_csv(table: Table, stream: TextIO) -> None:
    """A heading line of keys and a line for each row; nothing is scaled or rounded."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(column.key for column in table.columns)
    for row in table.rows:
        writer.writerow(_flat(_plain(column, row)) for column in table.columns)


def room(stream: TextIO) -> int:
    """The columns of the terminal that a stream is, or what COLUMNS says of it; 0 for a file."""
    return max(get_terminal_size().columns, NARROWEST) if stream.isatty() else 0


def print_text(table: Table, stream: TextIO, width: int = 0) -> None:
    """Aligned columns without empty ones, no line over `width`, where there is one.

    What all rows share comes first, once. What did not fit is named on stderr.
    """
    if not table.rows:
        return
    shown = [column for column in table.columns if _is_shown(column, table.rows)]
    lifted = [column for column in shown if column.lifted and _is_shared(column, table.rows)]
    for column in lifted:
        said = f"{column.heading}: {_text(column, table.rows[0])}"
        stream.writelines(f"{line}\n" for line in (indented(said, width) if width else [said]))
    strips = [_strip(column, table) for column in shown if column not in lifted]
    layout = fitted(strips, width) if width else spacious(strips)
    stream.writelines(f"{line}\n" for line in lines(layout))
    if layout.left_out:
        stream.flush()
        names = ", ".join(layout.left_out)
        print(
            f"not shown at {width} columns: {names} (--wide or --json shows all)", file=sys.stderr
        )


def markdown_table(table: Table, *, most: int = markdown.MOST_ROWS) -> str:
    """The table as people see it, in Markdown."""
    shown = [column for column in table.columns if _is_shown(column, table.rows)]
    strips = [_strip(column, table) for column in shown]
    cells = [[cell.strip() for cell in (strip.heading, *strip.cells)] for strip in strips]
    right = [index for index, column in enumerate(shown) if column.kind in _SCALERS]
    lines = [[markdown.escaped(cell) for cell in line] for line in zip(*cells, strict=True)]
    return markdown.table(lines[0], lines[1:], right=right, most=most) if lines else ""


def _is_shown(column: Column, rows: Sequence[Mapping[str, Cell]]) -> bool:
    """Whether text shows a column: it is not hidden, and some row has a value."""
    if column.hidden:
        return False
    return any(row.get(column.key) not in (None, "") for row in rows)


def _is_shared(column: Column, rows: Sequence[Mapping[str, Cell]]) -> bool:
    return len(rows) > 1 and len({_text(column, row) for row in rows}) == 1


def _strip(column: Column, table: Table) -> Strip:
    """A column as text: its numbers in one scale, their points under each other."""
    is_number = column.kind in _SCALERS
    if is_number:
        values = [_number(row.get(column.key)) for row in table.rows]
        unit, cells = _SCALERS[column.kind](values)
        heading, cells = f"{column.heading} {unit}".strip(), _pointed(cells)
    else:
        heading, cells = column.heading, [_text(column, row) for row in table.rows]
    return Strip(
        name=_called(column, table),
        heading=heading,
        cells=cells,
        is_rigid=is_number or column.kind is ValueKind.TIME,
        is_right=is_number,
        is_prose=column.prose,
        is_joined=column.joined,
        rank=column.rank,
    )


def _called(column: Column, table: Table) -> str:
    """The heading, or for a heading that several have, or none, the key."""
    same = [each for each in table.columns if each.heading == column.heading and not each.hidden]
    return column.heading if column.heading and len(same) == 1 else column.key


def _pointed(cells: Sequence[str]) -> list[str]:
    """Cells with their decimal points under each other."""
    after = max((len(cell.partition(".")[2]) + ("." in cell) for cell in cells), default=0)
    return [cell + " " * (after - len(cell.partition(".")[2]) - ("." in cell)) for cell in cells]


def _number(value: Cell) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _bare(
    show: Callable[[float], str],
) -> Callable[[Sequence[float | None]], tuple[str, list[str]]]:
    return lambda values: ("", ["" if value is None else show(value) for value in values])


_SCALERS: Mapping[ValueKind, Callable[[Sequence[float | None]], tuple[str, list[str]]]] = {
    ValueKind.COUNT: _bare(lambda value: f"{value:,.0f}"),
    ValueKind.NUMBER: _bare(lambda value: units.significant(value, 3)),
    ValueKind.VALUE: _bare(lambda value: f"{value:.10g}"),
    ValueKind.SECONDS: units.seconds_column,
    ValueKind.BYTES: lambda values: units.rate_column(values, "B"),
    ValueKind.BYTE_RATE: lambda values: units.rate_column(values, "B/s"),
    ValueKind.FLOP_RATE: lambda values: units.rate_column(values, "FLOP/s"),
    ValueKind.PERCENT: _bare(lambda value: f"{value * 100:.1f}%"),
}


def _text(column: Column, row: Mapping[str, Cell]) -> str:
    value = row.get(column.key)
    if isinstance(value, int | float) and column.kind is ValueKind.TIME:
        return datetime.fromtimestamp(value).strftime("%Y-%m-%d %H:%M:%S")
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(str(_name(item)) for item in value)
    return " ".join(str(value).split())


def _name(item: Cell) -> Cell:
    return item["name"] if isinstance(item, Mapping) else item


def _plain(column: Column, row: Mapping[str, Cell]) -> Cell:
    value = row.get(column.key)
    if isinstance(value, float) and not isfinite(value):
        return None  # JSON has no word for it
    if isinstance(value, int | float) and column.kind is ValueKind.TIME:
        return datetime.fromtimestamp(value, UTC).isoformat()
    return value


def _flat(value: Cell) -> Cell:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value
