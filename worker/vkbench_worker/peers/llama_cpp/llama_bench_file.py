"""Reads what llama-bench of llama.cpp prints: JSON, a JSON object a line, CSV, or SQL.

The file may be a stranger's: nothing of it is run, it has a bounded size, and every number that is
used has to make sense. What is wrong is said in one line that counts the tests.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vkbench_worker.peers.llama_cpp.printed import (
    MOST_TESTS,
    Fields,
    Printed,
    Row,
    rows_of_csv,
    rows_of_sql,
    setting,
)

MOST_SAMPLES: Final = 100_000
_MOST_TOKENS: Final = 1 << 24
_MOST_NS: Final = 10**15  # eleven days
_MOST_COUNT: Final = 1 << 53
_TABLES: Final = ("llama_bench", "test")


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
    printed = Printed(path, "llama-bench")
    text = printed.text()
    reader = _reader(printed, text)
    tests: list[PeerTest] = []
    try:
        for number, row in enumerate(reader(text), 1):
            if number > MOST_TESTS:
                raise printed.refusal(f"it has more than {MOST_TESTS} tests")
            tests.append(_Fields(printed, number, row).test())
    except (ValueError, RecursionError, csv.Error) as error:
        raise printed.refusal(f"it is malformed: {error}") from error
    if not tests:
        raise printed.refusal("it holds no test")
    return tests


def _reader(printed: Printed, text: str) -> Callable[[str], Iterator[Row]]:
    first = text.split("\n", 1)[0]
    if text.startswith("["):
        return _of_json
    if text.startswith("{"):
        return _of_json_lines
    if first.upper().startswith(("CREATE TABLE", "INSERT INTO")):
        return lambda text: rows_of_sql(text, _TABLES)
    if "avg_ns" in first:
        return rows_of_csv
    if text.startswith("|"):
        raise printed.refusal("it is a table for people; have it printed with `-o json`")
    raise printed.refusal("it is neither its JSON, JSON lines, CSV nor SQL")


def _of_json(text: str) -> Iterator[Row]:
    yield from map(_object, json.loads(text))


def _of_json_lines(text: str) -> Iterator[Row]:
    yield from (_object(json.loads(line)) for line in text.splitlines() if line.strip())


def _object(value: object) -> Row:
    if not isinstance(value, dict):
        raise ValueError("a test is no object")
    return value


class _Fields(Fields):
    """The fields of one test of llama-bench."""

    def test(self) -> PeerTest:
        """The test of llama-bench that the fields tell."""
        name = re.split(r"[/\\]", self.word("model_filename"))[-1]
        return PeerTest(
            number=self.number,
            model=name.removesuffix(".gguf"),
            prompt=self.count("n_prompt", _MOST_TOKENS),
            generated=self.count("n_gen", _MOST_TOKENS),
            depth=self.count("n_depth", _MOST_TOKENS, 0),
            cache_k=self.word("type_k", "f16"),
            cache_v=self.word("type_v", "f16"),
            seconds=self._seconds(),
            deviation=self.count("stddev_ns", _MOST_NS, 0) * 1e-9,
            finished_at=self.moment("test_time"),
            device=self.word("gpu_info", "") or self.word("cpu_info", ""),
            model_bytes=self.count("model_size", _MOST_COUNT, 0),
            model_weights=self.count("model_n_params", _MOST_COUNT, 0),
            settings=self._settings(),
        )

    def _seconds(self) -> tuple[float, ...]:
        samples = self.row.get("samples_ns")
        if samples is None:
            samples = [self.count("avg_ns", _MOST_NS)]
        good = isinstance(samples, list) and 0 < len(samples) <= MOST_SAMPLES
        if not good or not all(_is_time(sample) for sample in samples):
            name = "samples_ns" if "samples_ns" in self.row else "avg_ns"
            raise self.wrong_field(name, "no time")
        return tuple(sample * 1e-9 for sample in samples)

    def _settings(self) -> Mapping[str, str]:
        named = {"backend": "backends", "build": "build_commit", "number": "build_number"}
        names = named | {"ngl": "n_gpu_layers", "fa": "flash_attn", "ubatch": "n_ubatch"}
        values = {short: self.row[name] for short, name in names.items() if name in self.row}
        return {short: setting(value) for short, value in values.items()}


def _is_time(value: object) -> bool:
    return type(value) in (int, float) and 0 < value <= _MOST_NS  # type: ignore[operator]
