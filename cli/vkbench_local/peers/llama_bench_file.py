"""Reads what llama-bench of llama.cpp prints: JSON, a JSON object a line, CSV, or SQL.

The file may be a stranger's: nothing of it is run, it has a bounded size, and every number that is
used has to make sense. What is wrong is said in one line that counts the tests.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from vkbench.errors import UsageError

MOST_BYTES: Final = 64 << 20
MOST_TESTS: Final = 10_000
MOST_SAMPLES: Final = 100_000
MOST_TEXT: Final = 1000  # characters
_MOST_TOKENS: Final = 1 << 24
_MOST_NS: Final = 10**15  # eleven days
_MOST_COUNT: Final = 1 << 53
_INSERT: Final = re.compile(
    r"INSERT INTO (?:llama_bench|test) \(([\w, ]+)\)\s*VALUES \((.*)\);?\s*", re.IGNORECASE
)
_VALUE: Final = re.compile(r"\s*(?:'((?:[^']|'')*)'|([^,']*))\s*(?:,|$)")

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class PeerTest:
    """A test of llama-bench."""

    number: int  # in the file, from 1
    model: str  # name of its file, without the folder and the ending
    prompt: int  # tokens
    generated: int  # tokens
    depth: int  # tokens in the caches before
    cache_k: str  # format
    cache_v: str
    seconds: tuple[float, ...]  # of all tokens, each repetition; the mean alone if that is all
    deviation: float  # of the repetitions, as the file says
    finished_at: float  # Unix time
    device: str  # as llama.cpp names it
    model_bytes: int  # 0: unknown
    model_weights: int
    settings: Mapping[str, str]  # of the build and the run, that may change its speed


def read_tests(path: Path) -> list[PeerTest]:
    """The tests of a file; UsageError names the first that is wrong."""
    text = _text(path)
    reader = _reader(path, text)
    found: list[PeerTest] = []
    try:
        for number, row in enumerate(reader(text), 1):
            if number > MOST_TESTS:
                raise _refused(path, f"it has more than {MOST_TESTS} tests")
            found.append(_Fields(path, number, row).test())
    except (ValueError, RecursionError, csv.Error) as error:
        raise _refused(path, f"it is malformed: {error}") from error
    if not found:
        raise _refused(path, "it holds no test")
    return found


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise _refused(path, f"it has more than {MOST_BYTES:,} bytes")
    return data.decode(errors="replace").strip()


def _refused(path: Path, complaint: str) -> UsageError:
    return UsageError(f"{path} is no output of llama-bench that can be read: {complaint}")


def _reader(path: Path, text: str) -> Callable[[str], Iterator[Row]]:
    first = text.split("\n", 1)[0]
    if text.startswith("["):
        return _of_json
    if text.startswith("{"):
        return _of_json_lines
    if first.upper().startswith(("CREATE TABLE", "INSERT INTO")):
        return _of_sql
    if "avg_ns" in first:
        return _of_csv
    if text.startswith("|"):
        raise _refused(path, "it is a table for people; have it printed with `-o json`")
    raise _refused(path, "it is neither its JSON, JSON lines, CSV nor SQL")


def _of_json(text: str) -> Iterator[Row]:
    yield from map(_object, json.loads(text))


def _of_json_lines(text: str) -> Iterator[Row]:
    yield from (_object(json.loads(line)) for line in text.splitlines() if line.strip())


def _object(found: object) -> Row:
    if not isinstance(found, dict):
        raise ValueError("a test is no object")
    return found


def _of_csv(text: str) -> Iterator[Row]:
    yield from csv.DictReader(io.StringIO(text))


def _of_sql(text: str) -> Iterator[Row]:
    """The rows that statements would insert; llama-bench writes each on a line."""
    for line in text.splitlines():
        if not line.upper().startswith("INSERT"):
            continue
        statement = _INSERT.fullmatch(line)
        if not statement:
            raise ValueError("a statement inserts no test")
        names = [name.strip() for name in statement[1].split(",")]
        values = list(_values(statement[2]))
        if len(names) != len(values):
            raise ValueError(f"a statement has {len(values)} values for {len(names)} columns")
        yield dict(zip(names, values, strict=True))


def _values(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _VALUE.match(text, at)
        if not found or found.end() == at:
            raise ValueError("a statement's values cannot be read")
        at = found.end()
        quoted, bare = found.groups()
        yield bare.strip() if quoted is None else quoted.replace("''", "'")


class _Fields:
    """The fields of one test, checked as they are read."""

    def __init__(self, path: Path, number: int, row: Row) -> None:
        self._path, self._number, self._row = path, number, row

    def test(self) -> PeerTest:
        """The test."""
        name = re.split(r"[/\\]", self._word("model_filename"))[-1]
        return PeerTest(
            number=self._number,
            model=name.removesuffix(".gguf"),
            prompt=self._count("n_prompt", _MOST_TOKENS),
            generated=self._count("n_gen", _MOST_TOKENS),
            depth=self._count("n_depth", _MOST_TOKENS, 0),
            cache_k=self._word("type_k", "f16"),
            cache_v=self._word("type_v", "f16"),
            seconds=self._seconds(),
            deviation=self._count("stddev_ns", _MOST_NS, 0) * 1e-9,
            finished_at=self._moment(),
            device=self._word("gpu_info", "") or self._word("cpu_info", ""),
            model_bytes=self._count("model_size", _MOST_COUNT, 0),
            model_weights=self._count("model_n_params", _MOST_COUNT, 0),
            settings=self._settings(),
        )

    def _wrong(self, name: str, wanted: str) -> UsageError:
        found = str(self._row.get(name, "missing"))[:40]
        return _refused(self._path, f"test {self._number}: {name} is {found!a}, {wanted}")

    def _word(self, name: str, default: str | None = None) -> str:
        found = self._row.get(name, default)
        if not isinstance(found, str) or len(found) > MOST_TEXT or not found.isprintable():
            raise self._wrong(name, "no text that can be shown")
        return found

    def _count(self, name: str, most: int, default: int | None = None) -> int:
        found = self._row.get(name, default)
        if isinstance(found, str) and found.isascii() and found.isdecimal() and len(found) < 20:
            found = int(found)
        if type(found) is not int or not 0 <= found <= most:
            raise self._wrong(name, f"no whole number from 0 to {most}")
        return found

    def _seconds(self) -> tuple[float, ...]:
        samples = self._row.get("samples_ns")
        if samples is None:
            samples = [self._count("avg_ns", _MOST_NS)]
        good = isinstance(samples, list) and 0 < len(samples) <= MOST_SAMPLES
        if not good or not all(_is_time(each) for each in samples):
            name = "samples_ns" if "samples_ns" in self._row else "avg_ns"
            raise self._wrong(name, "no time")
        return tuple(each * 1e-9 for each in samples)

    def _moment(self) -> float:
        text = self._word("test_time")
        try:
            found = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        except ValueError:
            raise self._wrong("test_time", "no moment such as 2026-11-22T10:00:00Z") from None
        return found.timestamp()

    def _settings(self) -> Mapping[str, str]:
        named = {"backend": "backends", "build": "build_commit", "number": "build_number"}
        names = named | {"ngl": "n_gpu_layers", "fa": "flash_attn", "ubatch": "n_ubatch"}
        told = {short: self._row[name] for short, name in names.items() if name in self._row}
        return {short: _setting(value) for short, value in told.items()}


def _is_time(value: object) -> bool:
    return type(value) in (int, float) and 0 < value <= _MOST_NS  # type: ignore[operator]


def _setting(value: object) -> str:
    """A value in a list of settings: neither commas nor signs, and short."""
    text = str(int(value)) if isinstance(value, bool) else str(value)
    return re.sub(r"[^A-Za-z0-9_.+-]+", "_", text)[:40]
