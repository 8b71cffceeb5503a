"""A table: columns and rows in base units (seconds, bytes, FLOP/s, fractions)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

Cell = object  # str, int, float, bool or None; lists and dictionaries where a program reads
EMPTY: Final[tuple[Cell, ...]] = (None, "", [], ())  # cells that say nothing


class Rank(IntEnum):
    """How much a column is missed."""

    KEY = 0  # says what the row is about
    USUAL = 1
    MINOR = 2  # left out first


class ValueKind(StrEnum):
    """What a column's values are, which decides how people see them."""

    TEXT = "text"
    COUNT = "count"
    ID = "id"  # a whole number that names something
    NUMBER = "number"  # a bare number, such as an error measure
    RATIO = "ratio"  # new over old, which is held against 1
    VALUE = "value"  # a number of unknown kind, shown unscaled
    SECONDS = "seconds"
    BYTES = "bytes"
    BYTE_RATE = "byte_rate"
    FLOP_RATE = "flop_rate"
    OP_RATE = "op_rate"  # of whole numbers
    PERCENT = "percent"  # stored as a fraction
    PROBABILITY = "probability"
    TIME = "time"  # Unix seconds
    AGE = "age"  # seconds, of which people see the largest unit


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
    for_people: bool = False  # not in JSON and CSV, which have the numbers that it is made of


@dataclass(frozen=True, kw_only=True)
class Table:
    """What a reading command found: columns, and rows by column key."""

    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Cell]]
    summary: Mapping[str, Cell] | None = None  # of all rows, for programs
    footer: Mapping[str, Cell] | None = None  # of all rows, a last one for people
    nothing: str = "nothing to show"  # said instead if there are no rows
