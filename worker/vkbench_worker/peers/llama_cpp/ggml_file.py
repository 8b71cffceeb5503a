"""Reads what test-backend-ops of llama.cpp prints in its mode perf: for people, as SQL or CSV.

Nothing of the file is run, and what is wrong is one line that counts the tests. Tests of other
modes, and those that the backend does not support, have no time and are passed over.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vkbench_worker.peers.llama_cpp.printed import (
    MOST_TESTS,
    MOST_TEXT,
    Fields,
    Printed,
    Row,
    rows_of_csv,
    rows_of_sql,
    setting,
)

_MOST_US: Final = 1e12
TABLES: Final = ("test_backend_ops",)
COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_BACKEND: Final = re.compile(r"Backend \d+/\d+: (.*)")
_DEVICE: Final = re.compile(r"\s*Device description: (.*)")
_TIME: Final = re.compile(
    r"\s*([A-Z0-9_]+)\((.*)\):\s+(\d{1,9}) runs -\s+([0-9.]{1,20}) us/run - .*"
)
_PARAMETER: Final = re.compile(r"(\w+)=(\[[^\]]*\]|[^,]*)(?:,|$)")


@dataclass(frozen=True, kw_only=True)
class OpTest:
    """A timing of one operation."""

    number: int  # in the file, from 1
    op: str  # as ggml names it
    params: Mapping[str, str]
    seconds: float  # mean of a run
    runs: int
    device: str  # as the backend describes it; "" if the file does not say
    finished_at: float  # Unix time; 0 if the file does not say
    settings: Mapping[str, str]


def read_ops(path: Path) -> list[OpTest]:
    """The timings of a file; UsageError names the first test that is wrong."""
    printed = Printed(path, "test-backend-ops perf")
    timings: list[OpTest] = []
    try:
        for number, row in enumerate(_rows(printed, printed.text()), 1):
            if number > MOST_TESTS:
                raise printed.refusal(f"it has more than {MOST_TESTS} tests")
            fields = _Fields(printed, number, row)
            if fields.is_timed:
                timings.append(fields.test())
    except (ValueError, csv.Error) as error:
        raise printed.refusal(f"it is malformed: {error}") from error
    if not timings:
        raise printed.refusal("it holds no timing")
    return timings


def _rows(printed: Printed, text: str) -> Iterator[Row]:
    first = text.split("\n", 1)[0]
    if first.upper().startswith(("CREATE TABLE", "INSERT INTO")):
        return rows_of_sql(text, TABLES)
    if "op_params" in first:
        return rows_of_csv(text)
    if "us/run" in text:
        return _rows_for_people(text)
    raise printed.refusal("it is neither its lines of `us/run`, SQL nor CSV")


def _rows_for_people(text: str) -> Iterator[Row]:
    backend = device = ""
    for line in COLOURS.sub("", text).splitlines():
        if match := _BACKEND.fullmatch(line):
            backend, device = match[1].strip(), ""
        elif match := _DEVICE.fullmatch(line):
            device = match[1].strip()
        elif match := _TIME.fullmatch(line):
            op, params, runs, time_us = match.groups()
            yield {
                "op_name": op,
                "op_params": params,
                "n_runs": runs,
                "time_us": time_us,
                "backend_name": backend,
                "device_description": device,
            }


class _Fields(Fields):
    """The fields of one test."""

    @property
    def is_timed(self) -> bool:
        """Whether it is a timing, of an operation that the backend has."""
        mode, supported = self.row.get("test_mode", "perf"), self.row.get("supported", "1")
        return mode == "perf" and supported in ("1", "true", "yes")

    def test(self) -> OpTest:
        """The timing of an operation that the row tells."""
        names = {"backend": "backend_name", "build": "build_commit"}
        return OpTest(
            number=self.number,
            op=self.word("op_name"),
            params=self._params(),
            seconds=self.number_of("time_us", _MOST_US) * 1e-6,
            runs=self.count("n_runs", 1 << 40, 1),
            device=self.word("device_description", ""),
            finished_at=self.moment("test_time") if "test_time" in self.row else 0.0,
            settings={
                short: setting(self.word(name, ""))
                for short, name in names.items()
                if self.row.get(name)
            },
        )

    def _params(self) -> Mapping[str, str]:
        text = self.word("op_params")
        params: dict[str, str] = {}
        at = 0
        while at < len(text) <= MOST_TEXT:
            match = _PARAMETER.match(text, at)
            if not match or match[1] in params:
                raise self.wrong_field("op_params", "no list of parameters")
            params[match[1]] = match[2]
            at = match.end()
        return params
