"""Reads a TOML file that a user declares something in: bounded, each field checked, nothing run."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeVar, get_args, get_type_hints

import msgspec

from vkbench.errors import UsageError, VkbenchError
from vkbench.process.plain_file import open_plain
from vkbench.words import names

MOST_FILE_BYTES: Final = 1 << 20
MOST_DOTS: Final = 2000  # in a line: a name of a million parts takes hours to read

T = TypeVar("T")


def read_toml(path: Path, kind: type[T]) -> T:
    """The record that a file declares; UsageError says in one line which field is wrong, and why.

    Its tables are dataclasses too, and no table has a field that its record has not.
    """
    with open_plain(path) as file:
        text = file.read(MOST_FILE_BYTES + 1)
    if len(text) > MOST_FILE_BYTES:
        raise UsageError(f"{path} has over {MOST_FILE_BYTES} bytes: it is no declaration")
    if max(line.count(b".") for line in text.splitlines() or [b""]) > MOST_DOTS:
        raise UsageError(f"{path} has a line of over {MOST_DOTS} dots: it is no declaration")
    try:
        table = tomllib.loads(text.decode())
        _check_fields(table, kind, "")
        return msgspec.convert(table, kind)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text in UTF-8: byte {error.start} is wrong") from error
    except (msgspec.ValidationError, VkbenchError) as error:
        raise UsageError(f"{path}: {error}") from error
    except (ValueError, RecursionError) as error:  # Python reads no number of 5,000 digits
        raise UsageError(f"{path} is no TOML: {error}") from error


def _check_fields(table: object, kind: type, where: str) -> None:
    """UsageError for a field that a table may not have: msgspec would leave it out silently."""
    if not isinstance(table, dict):
        return  # msgspec says what it should be
    known = [item.name for item in fields(kind)]
    for name in table:
        if name not in known:
            names.pick(name, known, f"field of {where or 'the file'}")
            raise UsageError(f"{name!r} is written {name.lower()!r}")
    for name, record in _tables_of(kind):
        inner = table.get(name)
        for row in inner if isinstance(inner, list) else [inner]:
            _check_fields(row, record, f"[[{name}]]" if isinstance(inner, list) else f"[{name}]")


def _tables_of(kind: type) -> Iterator[tuple[str, type]]:
    """The fields of a record that are tables, and the records of these."""
    for name, hint in _hints(kind).items():
        for item in (hint, *get_args(hint)):
            if isinstance(item, type) and is_dataclass(item):
                yield name, item


@cache
def _hints(kind: type) -> dict[str, object]:
    return get_type_hints(kind)
