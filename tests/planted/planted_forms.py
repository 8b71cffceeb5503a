"""Files as other programs print them, and how a reader refuses those that are wrong."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from vkbench.errors import UsageError

Tests = Sequence[Mapping[str, object]]


def written(folder: Path, text: str) -> Path:
    """A file that holds a text."""
    path = folder / "printed"
    path.write_text(text)
    return path


def in_csv(tests: Tests) -> str:
    """Tests as a table with a heading."""
    file = io.StringIO()
    file.write(",".join(tests[0]) + "\n")
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows(test.values() for test in tests)
    return file.getvalue()


def in_sql(table: str, tests: Tests) -> str:
    """Statements that make a table and insert tests."""
    lines = [f"CREATE TABLE IF NOT EXISTS {table} (", "  test_time TEXT", ");", ""]
    for test in tests:
        values = ", ".join(f"'{value}'" for value in test.values())
        lines.append(f"INSERT INTO {table} ({', '.join(test)}) VALUES ({values});")
    return "\n".join(lines) + "\n"


def require_refusal(read: Callable[[Path], object], path: Path, complaint: str) -> None:
    """Fail unless a reader refuses a file in one short line that has a complaint."""
    with pytest.raises(UsageError) as raised:
        read(path)
    said = str(raised.value)
    assert complaint in said
    assert said.isprintable()
    assert len(said) < 300
