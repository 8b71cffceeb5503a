"""Files that other programs printed: bounded, read and never run, refused in one line.

They may be strangers': a file has a bounded size, and every field that is used is checked.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from vkbench.errors import UsageError

MOST_BYTES: Final = 64 << 20
MOST_TESTS: Final = 10_000
MOST_TEXT: Final = 1000  # characters
_INSERT: Final = re.compile(
    r"INSERT INTO (\w+) \(([\w, ]+)\)\s*VALUES \((.*)\);?\s*", re.IGNORECASE
)
_VALUE: Final = re.compile(r"\s*(?:'((?:[^']|'')*)'|([^,']*))\s*(?:,|$)")

Row = Mapping[str, Any]


class Printed:
    """A file of a program, whose name stands in complaints."""

    def __init__(self, path: Path, program: str) -> None:
        self.path, self.program = path, program

    def text(self) -> str:
        """The file's text; UsageError if it is too long."""
        try:
            with self.path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise UsageError(f"cannot read {self.path}: {error.strerror}") from error
        if len(data) > MOST_BYTES:
            raise self.refusal(f"it has more than {MOST_BYTES:,} bytes")
        return data.decode(errors="replace").strip()

    def refusal(self, complaint: str) -> UsageError:
        """An error that says what is wrong with the file."""
        return UsageError(
            f"{self.path} is no output of {self.program} that can be read: {complaint}"
        )


class Fields:
    """The fields of one test, checked as they are read."""

    def __init__(self, printed: Printed, number: int, row: Row) -> None:
        self.printed, self.number, self.row = printed, number, row

    def wrong_field(self, name: str, complaint: str) -> UsageError:
        """An error that says what is wrong with a field."""
        if name not in self.row:
            return self.printed.refusal(f"test {self.number} has no {name}")
        value = str(self.row[name])[:40]
        return self.printed.refusal(f"test {self.number}: {name} is {value!a}, {complaint}")

    def word(self, name: str, default: str | None = None) -> str:
        """A field that is a text of one line."""
        value = self.row.get(name, default)
        if not isinstance(value, str) or len(value) > MOST_TEXT or not value.isprintable():
            raise self.wrong_field(name, "no text that can be shown")
        return value

    def count(self, name: str, most: int, default: int | None = None) -> int:
        """A field that is a whole number from 0 to `most`."""
        value = self.row.get(name, default)
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
            value = int(value)
        if type(value) is not int or not 0 <= value <= most:
            raise self.wrong_field(name, f"no whole number from 0 to {most}")
        return value

    def number_of(self, name: str, most: float) -> float:
        """A field that is a number above 0."""
        value = self.row.get(name)
        try:
            number = float(value) if isinstance(value, (str, int, float)) else -1.0
        except (ValueError, OverflowError):
            number = -1.0
        if isinstance(value, bool) or not 0 < number <= most:
            raise self.wrong_field(name, "no number above 0")
        return number

    def moment(self, name: str) -> float:
        """A field that is a moment of UTC, as Unix time."""
        text = self.word(name)
        try:
            date = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        except ValueError:
            raise self.wrong_field(name, "no moment such as 2026-11-22T10:00:00Z") from None
        return date.timestamp()


def rows_of_csv(text: str) -> Iterator[Row]:
    """The rows of a table with a heading."""
    yield from csv.DictReader(io.StringIO(text))


def rows_of_sql(text: str, tables: tuple[str, ...]) -> Iterator[Row]:
    """The rows that statements would insert, each on a line; ValueError for other statements."""
    for line in text.splitlines():
        if not line.upper().startswith("INSERT"):
            continue
        statement = _INSERT.fullmatch(line)
        if not statement or statement[1].lower() not in tables:
            raise ValueError("a statement inserts no test")
        names = [name.strip() for name in statement[2].split(",")]
        values = list(_values(statement[3]))
        if len(names) != len(values):
            raise ValueError(f"a statement has {len(values)} values for {len(names)} columns")
        yield dict(zip(names, values, strict=True))


def setting(value: object) -> str:
    """A value in a list of settings: neither commas nor signs, and short."""
    text = str(int(value)) if isinstance(value, bool) else str(value)
    return re.sub(r"[^A-Za-z0-9_.+-]+", "_", text)[:40]


def _values(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        match = _VALUE.match(text, at)
        if not match or match.end() == at:
            raise ValueError("a statement's values cannot be read")
        at = match.end()
        quoted, bare = match.groups()
        yield bare.strip() if quoted is None else quoted.replace("''", "'")
