"""Reads a TOML file that a user declares something in: bounded, each field checked, nothing run."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeVar, get_args, get_type_hints

import msgspec

from vkbench import decoding
from vkbench.errors import UnknownName, UsageError, VkbenchError
from vkbench.process.plain_file import open_plain
from vkbench.words import names

MOST_FILE_BYTES: Final = 1 << 20
MOST_DOTS: Final = 2000  # in a line: a name of a million parts takes hours to read

_MISFIT: Final = re.compile(r"Expected `(.+)`, got `(.+)` - at `\$\.?(.*)`")
_LACKING: Final = re.compile(r"Object missing required field `(\w+)`(?: - at `\$\.?(.*)`)?")
_MOST_LINES: Final = 3  # that a message names
_STEP: Final = re.compile(r"(\w+)(?:\[(\d+)\])?")
_KINDS: Final[Mapping[str, str]] = {  # as people call them
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}

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
    table: dict[str, object] = {}
    try:
        table = tomllib.loads(text.decode())
        _check_fields(table, kind, "")
        return decoding.convert(table, kind)
    except UnknownName as error:
        raise UsageError(f"{path}: {error}{_find_line(text.decode(), error.typed)}") from error
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {_describe_misfit(str(error), table)}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text in UTF-8: byte {error.start} is wrong") from error
    except VkbenchError as error:
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


def _describe_misfit(said: str, table: dict[str, object]) -> str:
    """What msgspec says of a field of the wrong kind, or of one that is not there, in our words."""
    if found := _MISFIT.fullmatch(said):
        wanted = dict.fromkeys(_KINDS[kind] for kind in found[1].split(" | ") if kind in _KINDS)
        got = "a fraction" if found[2] == "float" else _KINDS.get(found[2], found[2])
        return f"{_describe_place(found[3], table)}: give {' or '.join(wanted)}, not {got}"
    if found := _LACKING.fullmatch(said):
        where = _describe_place(found[2], table) if found[2] else "the file"
        return f"{where} lacks {found[1]}"
    return said


def _describe_place(path: str, table: object) -> str:
    """Where a field is: `bindings[0].dims` is dims of [[bindings]] x, or of the first."""
    places = []
    for name, number in _STEP.findall(path):
        inner = table.get(name) if isinstance(table, dict) else None
        table = inner[int(number)] if number and isinstance(inner, list) else inner
        called = table.get("name") if isinstance(table, dict) else None
        which = called if isinstance(called, str) else str(int(number) + 1) if number else ""
        if not number or not isinstance(table, dict):
            places.append(f"{name}[{number}]" if number else name)
        else:
            places.append(f"[[{name}]] {which}")
    return " of ".join(reversed(places)) or "the file"


def _find_line(text: str, name: str) -> str:
    """In which lines a name is given a value, or begins a table; "" where in none, or in many."""
    word = rf"""["']?\b{re.escape(name)}\b["']?"""
    given = re.compile(rf"{word}\s*=|^\s*\[+{word}\]")
    lines = [str(number) for number, line in enumerate(text.splitlines(), 1) if given.search(line)]
    if not 1 <= len(lines) <= _MOST_LINES:
        return ""
    return f" (line{'s' if len(lines) > 1 else ''} {', '.join(lines)})"
