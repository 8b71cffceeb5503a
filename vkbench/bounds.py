"""What a record from outside may hold so that both databases keep it and people can read it.

PostgreSQL has no index entry over 2,704 bytes and stores no NUL; SQLite has no integer over 64
bits; a date beyond the year 9999 is none. The messages of Redis and the lines of imports are held
to this.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

MOST_NAME_BYTES: Final = 1000  # two of them fit an index entry of PostgreSQL
MOST_TEXT_BYTES: Final = 100_000
MOST_MANIFEST_BYTES: Final = 32 << 20
MOST_SAMPLES_BYTES: Final = 32 << 20
MOST_ENTRIES: Final = 1000  # of a list: attempts at a job, features of a device
MOST_TIMINGS: Final = 16
MOST_STATISTICS: Final = 256
MOST_WARNINGS: Final = 100  # of a timing
MOST_READINGS: Final = 256  # of an attempt's telemetry
MOST_ID: Final = 2**31 - 1  # ids and tokens, in both databases
MOST_INTEGER: Final = 2**64 - 1  # a limit of Vulkan; only JSON holds those over 63 bits
_PROSE: Final = {  # texts that no index holds, and that commands clean when they print them
    "reason": MOST_TEXT_BYTES,
    "refused": MOST_TEXT_BYTES,
    "lacking": MOST_TEXT_BYTES,
    "first_bad": MOST_TEXT_BYTES,
    "warnings": MOST_TEXT_BYTES,
    "manifest": MOST_MANIFEST_BYTES,
    "samples": MOST_SAMPLES_BYTES,
    "signature": MOST_TEXT_BYTES,
}
_FREE: Final = ("tags", "selection", "about")  # whatever JSON its maker put there
_MOMENTS: Final = frozenset(
    {
        *("created_at", "cancelled_at", "finished_at", "started_at", "recorded_at"),
        "measured_at",
    }
)
_COUNTED: Final = {
    "timings": MOST_TIMINGS,
    "warnings": MOST_WARNINGS,
    "statistics": MOST_STATISTICS,
}
_MAPPED: Final = {"telemetry": MOST_READINGS}
_PLAIN_CHARACTERS: Final = MOST_NAME_BYTES // 4  # UTF-8 has four bytes a character at most
# a day from the ends of the calendar, for a time zone may put the date beyond
_FIRST: Final = datetime(1, 1, 2, tzinfo=UTC).timestamp()
_LAST: Final = datetime(9999, 12, 30, tzinfo=UTC).timestamp()
# control characters, and those that turn the direction of a line or break it
UNSHOWN: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def complaints(record: Any) -> Iterator[str]:
    """What is wrong with the texts, numbers and lists of a record, each in a sentence."""
    for name in record.__dataclass_fields__:
        value = getattr(record, name)
        if not _is_plain(name, value):
            yield from _field_complaints(name, value)


def count_complaints(result: Any) -> Iterator[str]:
    """What a result has too many of, and readings without a name that databases keep."""
    yield from _field_complaints("telemetry", result.telemetry)
    counts = [("timings", len(result.timings)), ("statistics", len(result.statistics))]
    counts += [("warnings", len(timing.warnings)) for timing in result.timings]
    for name, count in counts:
        if count > _COUNTED[name]:
            yield f"{name} has {count} entries, and {_COUNTED[name]} are allowed"


def is_id(number: int) -> bool:
    """Whether a number may be that of a job, a run or a dispatch."""
    return 0 < number <= MOST_ID


def _is_plain(name: str, value: object) -> bool:
    """Whether a value is plainly within bounds, as nearly all of a file's millions are."""
    if isinstance(value, str):
        return len(value) <= _PLAIN_CHARACTERS and value.isprintable()
    if isinstance(value, int | float):
        return name not in _MOMENTS and -MOST_INTEGER <= value <= MOST_INTEGER
    return value is None


def _field_complaints(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from _text_complaints(name, value)
    elif isinstance(value, int | float):
        yield from _number_complaints(name, value)
    elif name in _FREE:
        yield from _text_complaints(name, msgspec.json.encode(value).decode(), MOST_TEXT_BYTES)
    elif isinstance(value, Mapping):
        yield from _mapping_complaints(name, value)
    elif isinstance(value, tuple | list):
        yield from _list_complaints(name, value)
    elif is_dataclass(value):
        yield from complaints(value)


def _number_complaints(name: str, value: int | float) -> Iterator[str]:
    if name in _MOMENTS and not _FIRST <= value <= _LAST:
        yield f"{name} is {value:g}, no date between the years 1 and 9999"
    elif isinstance(value, int) and abs(value) > MOST_INTEGER:
        yield f"{name} cannot be kept: it has {value.bit_length()} bits, and 64 are allowed"


def _mapping_complaints(name: str, mapping: Mapping[Any, object]) -> Iterator[str]:
    most = _MAPPED.get(name, MOST_ENTRIES // 2)
    if len(mapping) > most:
        yield f"{name} has {len(mapping)} entries, and {most} are allowed"
    else:
        yield from _list_complaints(name, [*mapping, *mapping.values()])


def _list_complaints(name: str, values: Sequence[object]) -> Iterator[str]:
    most = _COUNTED.get(name, MOST_ENTRIES)
    if len(values) > most:
        yield f"{name} has {len(values)} entries, and {most} are allowed"
    for value in values:
        if not _is_plain(name, value):
            yield from _field_complaints(name, value)


def _text_complaints(name: str, text: str, most: int | None = None) -> Iterator[str]:
    limit = most or _PROSE.get(name, MOST_NAME_BYTES)
    if len(text) > limit or len(text.encode()) > limit:
        yield f"{name} has {len(text.encode())} bytes, and {limit} are allowed"
    elif name in _PROSE:
        if "\0" in text:
            yield f"{name} has a NUL, which no database keeps"
    elif control := UNSHOWN.search(text):
        yield f"{name} has the control character {control[0]!a}"
