"""Reads JSON of Google Benchmark and of nvbench, from a file or as a program of a build wrote it.

A benchmark is of the case that its name is, or that nvbench's axis `case` names. What is wrong is
one line that counts the benchmarks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from vkbench_worker.peers.llama_cpp.printed import MOST_TESTS, Fields, Printed, Row, setting

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_MOST_TIME: Final = 1e15  # of any unit
# what Google Benchmark adds to the name of a benchmark
_ADDED: Final = re.compile(
    r"(?:/(?:real_time|process_time|manual_time"
    r"|(?:iterations|repeats|threads|min_time|min_warmup_time):[^/]*))+$"
)
_HOT, _COLD = "nv/batch/time/gpu/mean", "nv/cold/time/gpu/mean"
_SPREAD: Final = "nv/cold/time/gpu/stdev/relative"

GOOGLE: Final = "Google Benchmark"
NVBENCH: Final = "nvbench"


@dataclass(frozen=True, kw_only=True)
class NamedTest:
    """A benchmark and its times."""

    number: int  # in the file, from 1
    name: str  # of the case
    samples: tuple[float, ...]  # seconds of a run, each repetition; the mean alone if that is all
    deviation: float  # seconds, of what the mean is of
    metric: str  # hot | cold
    clock: str  # gpu | host
    device: str  # as the file names it, if it does
    finished_at: float  # Unix time; 0 if the file does not say
    settings: Mapping[str, str]
    error: str = ""  # why it has no time, as the file says it
    is_skipped: bool = False  # it could not run, rather than that it failed


def read_google(path: Path) -> list[NamedTest]:
    """The benchmarks of a file of Google Benchmark that have a time."""
    return _read(path, GOOGLE, parse_google)


def read_nvbench(path: Path) -> list[NamedTest]:
    """The states of a file of nvbench that have a time on the GPU."""
    return _read(path, NVBENCH, parse_nvbench)


def parse_google(printed: Printed, text: str) -> list[NamedTest]:
    """The benchmarks of Google Benchmark's JSON, repetitions as samples of one; failed ones too."""
    tests: dict[str, NamedTest] = {}
    for test in _parse(printed, text, _of_google):
        before = tests.get(test.name, test)
        samples = (*before.samples, *test.samples) if before is not test else test.samples
        tests[test.name] = replace(before, samples=samples, error=before.error or test.error)
    return list(tests.values())


def parse_nvbench(printed: Printed, text: str) -> list[NamedTest]:
    """The states of nvbench's JSON, skipped ones too."""
    return _parse(printed, text, _of_nvbench)


def _read(
    path: Path, program: str, parse: Callable[[Printed, str], list[NamedTest]]
) -> list[NamedTest]:
    printed = Printed(path, program)
    tests = [test for test in parse(printed, printed.text()) if not test.error]
    if not tests:
        raise printed.refusal("it holds no timing")
    return tests


def _parse(
    printed: Printed, text: str, rows: Callable[[Printed, Row], Iterator[NamedTest]]
) -> list[NamedTest]:
    tests: list[NamedTest] = []
    try:
        for test in rows(printed, _object(json.loads(text))):
            tests.append(test)
            if len(tests) > MOST_TESTS:
                raise printed.refusal(f"it has more than {MOST_TESTS} benchmarks")
    except (ValueError, RecursionError) as error:
        raise printed.refusal(f"it is malformed: {error}") from error
    return tests


def _of_google(printed: Printed, file: Row) -> Iterator[NamedTest]:
    context = _object(file.get("context", {}))
    moment = _moment(context.get("date"))
    build = {"build": setting(context.get("library_build_type", ""))}
    for number, row in enumerate(_list(file, "benchmarks"), 1):
        fields = Fields(printed, number, row)
        if row.get("run_type", "iteration") != "iteration":
            continue
        name = _ADDED.sub("", fields.word("run_name", row.get("name"))).removeprefix("BM_")
        blank = NamedTest(
            number=number,
            name=name,
            samples=(),
            deviation=0.0,
            metric="hot",
            clock="host",
            device="",
            finished_at=moment,
            settings={key: value for key, value in build.items() if value},
        )
        if row.get("error_occurred") or row.get("skipped"):
            is_skipped = not row.get("error_occurred")
            message = row.get("skip_message" if is_skipped else "error_message") or "no reason"
            yield replace(blank, error=_words(message), is_skipped=is_skipped)
            continue
        unit = fields.word("time_unit", "ns")
        if unit not in _UNITS:
            raise fields.wrong_field("time_unit", f"none of {', '.join(_UNITS)}")
        seconds = fields.number_of("real_time", _MOST_TIME) * _UNITS[unit]
        yield replace(blank, samples=(seconds,))


def _of_nvbench(printed: Printed, file: Row) -> Iterator[NamedTest]:
    devices = {str(row.get("id")): str(row.get("name", "")) for row in _list(file, "devices")}
    number = 0
    for benchmark in _list(file, "benchmarks"):
        for state in _list(benchmark, "states"):
            number += 1
            times = {str(row.get("tag")): _value(row) for row in _list(state, "summaries")}
            axes = {str(row.get("name")): row.get("value") for row in _list(state, "axis_values")}
            metric = "hot" if _HOT in times else "cold"
            row = {
                "name": axes.get("case", benchmark.get("name")),
                "device": devices.get(str(state.get("device")), ""),
                "time": times.get(_HOT, times.get(_COLD)),
            }
            fields = Fields(printed, number, row)
            blank = NamedTest(
                number=number,
                name=fields.word("name"),
                samples=(),
                deviation=0.0,
                metric=metric,
                clock="gpu",
                device=fields.word("device"),
                finished_at=0.0,
                settings={},
            )
            if state.get("is_skipped") or not {_HOT, _COLD} & times.keys():
                reason = _words(state.get("skip_reason") or "it has no time on the GPU")
                yield replace(blank, error=reason, is_skipped=True)
                continue
            seconds = fields.number_of("time", _MOST_TIME)
            has_spread = metric == "cold" and _SPREAD in times
            spread = Fields(printed, number, {"stdev": times.get(_SPREAD)})
            deviation = seconds * spread.number_of("stdev", 1e6) if has_spread else 0.0
            yield replace(blank, samples=(seconds,), deviation=deviation)


def _words(message: object) -> str:
    """What a file says of a benchmark, as one short line."""
    return " ".join(str(message).split())[:300]


def _object(value: object) -> Row:
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, found {json.dumps(value)[:40]}")
    return value


def _list(row: Row, name: str) -> list[Row]:
    values = row.get(name, [])
    if not isinstance(values, list):
        raise ValueError(f"{name} is no list")
    return [_object(value) for value in values]


def _value(summary: Row) -> object:
    data = {str(row.get("name")): row.get("value") for row in _list(summary, "data")}
    return data.get("value")


def _moment(date: object) -> float:
    """Unix time of an ISO date with its zone, or of UTC; 0 of none."""
    if date is None:
        return 0.0
    moment = datetime.fromisoformat(str(date))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp())
