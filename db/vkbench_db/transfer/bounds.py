"""What a line of an import may hold: hashes that are true, names that are names, dates that exist.

A database takes an import's word for much that commands then print and compare, and PostgreSQL has
no index entry over 2,704 bytes: whatever a file holds that would not do is named with its line.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from vkbench.device import DeviceFacts, Environment, has_own_key
from vkbench_db.errors import ImportRefused
from vkbench_db.transfer.lines import BundleLine, EnvironmentLine, RunLine

MOST_NAME_BYTES: Final = 1000  # two of them fit an index entry of PostgreSQL
MOST_TEXT_BYTES: Final = 100_000
MOST_MANIFEST_BYTES: Final = 32 << 20
MOST_SAMPLES_BYTES: Final = 32 << 20
MOST_ENTRIES: Final = 1000  # of a list: attempts at a job, features of a device
MOST_TIMINGS: Final = 16
_PROSE: Final = {  # texts that no index holds, and that commands clean when they print them
    "reason": MOST_TEXT_BYTES,
    "first_bad": MOST_TEXT_BYTES,
    "warnings": MOST_TEXT_BYTES,
    "manifest": MOST_MANIFEST_BYTES,
    "samples": MOST_SAMPLES_BYTES,
}
_FREE: Final = ("tags", "selection")  # whatever JSON its maker put there
_MOMENTS: Final = frozenset(
    {
        *("created_at", "cancelled_at", "finished_at", "started_at", "recorded_at"),
        "measured_at",
    }
)
_COUNTED: Final = {"timings": MOST_TIMINGS}
_PLAIN_CHARACTERS: Final = MOST_NAME_BYTES // 4  # UTF-8 has four bytes a character at most
# a day from the ends of the calendar, for a time zone may put the date beyond
_FIRST: Final = datetime(1, 1, 2, tzinfo=UTC).timestamp()
_LAST: Final = datetime(9999, 12, 30, tzinfo=UTC).timestamp()
# control characters, and those that turn the direction of a line or break it
_UNSHOWN: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def checked(number: int, record: object) -> object:
    """A line's record as a database may hold it; ImportRefused says what is wrong with it.

    What a person wrote about a run has its control characters replaced.
    """
    if isinstance(record, RunLine):
        user, label = _UNSHOWN.sub("?", record.user), _UNSHOWN.sub("?", record.label)
        record = replace(record, user=user, label=label)
    _check_name(number, record)
    for complaint in _complaints(record):
        raise _refusal(number, complaint)
    return record


def _check_name(number: int, record: object) -> None:
    """Whether a record is what its hash or key names, so that none passes for another."""
    if isinstance(record, BundleLine):
        if hashlib.sha256(record.manifest.encode()).hexdigest() != record.sha:
            raise _refusal(number, "the manifest is not the one that its hash names")
    elif isinstance(record, EnvironmentLine) and record.hash not in _hashes(record.facts):
        raise _refusal(number, "the facts are not those that their hash names")
    elif isinstance(record, DeviceFacts) and not has_own_key(record):
        raise _refusal(number, f"the key {record.key!a} is not one of the device's host and UUID")


def _refusal(number: int, complaint: str) -> ImportRefused:
    return ImportRefused(f"line {number}: {complaint}")


def _hashes(facts: Environment) -> Iterator[str]:
    """The hashes that facts may have: today's, and that of versions that did not know a field."""
    told: dict[str, Any] = asdict(facts)
    yield facts.hash
    for name, default in (("extra", {}), ("clock_policy", "default")):
        if told[name] == default:
            del told[name]
            yield hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _complaints(record: Any) -> Iterator[str]:
    for name in record.__dataclass_fields__:
        value = getattr(record, name)
        if not _is_plain(name, value):
            yield from _field_complaints(name, value)


def _is_plain(name: str, value: object) -> bool:
    """Whether nothing can be wrong with it: almost every value, and a file has millions."""
    if isinstance(value, str):
        return len(value) <= _PLAIN_CHARACTERS and value.isprintable()
    return value is None or (isinstance(value, int | float) and name not in _MOMENTS)


def _field_complaints(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from _text_complaints(name, value)
    elif isinstance(value, int | float):
        if name in _MOMENTS and not _FIRST <= value <= _LAST:
            yield f"{name} is {value:g}, no date between the years 1 and 9999"
    elif name in _FREE:
        yield from _text_complaints(name, msgspec.json.encode(value).decode(), MOST_TEXT_BYTES)
    elif isinstance(value, Mapping):
        yield from _list_complaints(name, [*value, *value.values()])
    elif isinstance(value, tuple | list):
        yield from _list_complaints(name, value)
    elif is_dataclass(value):
        yield from _complaints(value)


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
    elif found := _UNSHOWN.search(text):
        yield f"{name} has the control character {found[0]!a}"
