"""Prints a table as text that fits the terminal, as CSV or as JSON."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Annotated, TextIO

from typer import Option

from vkbench.errors import UsageError
from vkbench.words.visible import visible
from vkbench_cli.show.layout import Strip, fit_table, lines, spacious, wrap_and_indent
from vkbench_cli.show.telling import room, tell
from vkbench_tables.table import Column, Table, ValueKind
from vkbench_tables.written import text
from vkbench_tables.written.data import write_csv, write_json

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

    def __post_init__(self) -> None:
        if self.json and self.csv:
            raise UsageError("only one of --json and --csv can be printed")

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


class ReaderLeft(Exception):
    """The reader of our output, such as `| head`, closed it; this is no error."""


def show(table: Table, output: Output, stream: TextIO | None = None) -> None:
    """Print a table the way that was asked for, on stdout."""
    stream = stream or sys.stdout
    if not table.rows:
        tell(table.nothing)
    try:
        if output.json:
            write_json(table, stream)
        elif output.csv:
            write_csv(table, stream)
        else:
            print_text(table, stream, 0 if output.wide else room(stream))
        stream.flush()
    except BrokenPipeError as error:
        raise ReaderLeft from error


def show_newest(table: Table, output: Output, most: int | None) -> None:
    """Print the first `most` rows of a table, the newest, and say so if there are more."""
    show_first(table, output, most, "newest")


def show_first(table: Table, output: Output, most: int | None, word: str = "first") -> None:
    """Print the first `most` rows of a table, and say which these are if there are more."""
    show(replace(table, rows=table.rows[:most]), output)
    tell_cut(len(table.rows), most, word)


def tell_cut(rows: int, most: int | None, word: str = "newest") -> None:
    """Say on stderr that of these rows only the first `most` are shown, if there are more."""
    if most and rows > most:
        tell(f"the {word} {most}; --limit 0 shows all")


def print_text(table: Table, stream: TextIO, width: int = 0) -> None:
    """Aligned columns without empty ones, no line over `width`, where there is one.

    What all rows share comes first, once. What did not fit is named on stderr.
    """
    if not table.rows:
        return
    shown = [column for column in table.columns if text.is_shown(column, table.rows)]
    lifted = [column for column in shown if column.lifted and text.is_shared(column, table.rows)]
    for column in lifted:
        shared = f"{visible(column.heading)}: {text.text(column, table.rows[0])}"
        stream.writelines(
            f"{line}\n" for line in (wrap_and_indent(shared, width) if width else [shared])
        )
    strips = [_strip(column, table) for column in shown if column not in lifted]
    layout = fit_table(strips, width) if width else spacious(strips)
    stream.writelines(f"{line}\n" for line in lines(layout))
    if layout.left_out:
        stream.flush()
        names = visible(", ".join(layout.left_out))
        tell(f"not shown at {width} columns: {names} (--wide or --json shows all)")


def _strip(column: Column, table: Table) -> Strip:
    """A column as text: its numbers in one scale, their points under each other."""
    rows = [*table.rows, table.footer] if table.footer else table.rows
    heading, cells = text.column_text(column, rows)
    return Strip(
        name=_name_column(column, table),
        heading=heading,
        cells=cells,
        is_rigid=text.is_number(column) or column.kind is ValueKind.TIME,
        is_right=text.is_number(column),
        is_prose=column.prose,
        is_joined=column.joined,
        rank=column.rank,
    )


def _name_column(column: Column, table: Table) -> str:
    """The heading, or for a heading that several have, or none, the key in words."""
    same = [
        other for other in table.columns if other.heading == column.heading and not other.hidden
    ]
    return column.heading if column.heading and len(same) == 1 else column.key.replace("_", " ")
