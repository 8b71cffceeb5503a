"""Timings of cases that any program took and named, from JSON of Google Benchmark or nvbench.

A benchmark is of the case that its name is, or that nvbench's axis `case` names. Nothing of a file
is run, and what is wrong is one line that counts the benchmarks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from vkbench.errors import UsageError, VkbenchError
from vkbench_local.peers.imported import NoCase, PeerTiming, posed_case
from vkbench_shaders.catalogue import is_code_path
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

EXAMPLE: Final = "mul_mat/f16/m4096_n512_k4096"
_PEER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")

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


def check_peer(name: str) -> str:
    """A name that a peer's results may have: short, and no code path's."""
    if not _PEER_NAME.fullmatch(name):
        raise UsageError(f"--peer takes up to 40 letters, digits, dots and dashes; got {name!a}")
    if is_code_path(name):
        raise UsageError(f"--peer {name} is the name of a code path: choose another")
    return name


def named_timing(program: str, test: NamedTest) -> PeerTiming:
    """What a benchmark of a program's file timed; NoCase if its name is none of a case."""
    try:
        posed = posed_case(test.name)
    except (VkbenchError, ValueError) as error:
        raise NoCase("whose name is no case") from error
    return PeerTiming(
        case=posed.case.name,
        samples=test.samples,
        deviation=test.deviation,
        finished_at=test.finished_at,
        seconds=sum(test.samples),
        origin=f"told by a file of {program}, and not judged",
        settings=test.settings,
        metric=test.metric,
        clock=test.clock,
        bytes_moved=posed.bytes_moved,
        flops=posed.flops,
    )


def read_google(path: Path) -> list[NamedTest]:
    """The benchmarks of a file of Google Benchmark, repetitions as samples of one."""
    tests: dict[str, NamedTest] = {}
    for test in _read(path, GOOGLE, _of_google):
        before = tests.get(test.name)
        samples = (*(before.samples if before else ()), *test.samples)
        tests[test.name] = replace(before or test, samples=samples)
    return list(tests.values())


def read_nvbench(path: Path) -> list[NamedTest]:
    """The states of a file of nvbench that have a time on the GPU."""
    return list(_read(path, NVBENCH, _of_nvbench))


_Rows = Callable[[Printed, Row], Iterator[NamedTest]]


def _read(path: Path, program: str, rows: _Rows) -> Sequence[NamedTest]:
    printed = Printed(path, program)
    text = printed.text()
    tests: list[NamedTest] = []
    try:
        for test in rows(printed, _object(json.loads(text))):
            tests.append(test)
            if len(tests) > MOST_TESTS:
                raise printed.refusal(f"it has more than {MOST_TESTS} benchmarks")
    except (ValueError, RecursionError) as error:
        raise printed.refusal(f"it is malformed: {error}") from error
    if not tests:
        raise printed.refusal("it holds no timing")
    return tests


def _of_google(printed: Printed, file: Row) -> Iterator[NamedTest]:
    context = _object(file.get("context", {}))
    moment = _moment(context.get("date"))
    build = {"build": setting(context.get("library_build_type", ""))}
    for number, row in enumerate(_list(file, "benchmarks"), 1):
        fields = Fields(printed, number, row)
        if row.get("run_type", "iteration") != "iteration" or row.get("error_occurred"):
            continue
        unit = fields.word("time_unit", "ns")
        if unit not in _UNITS:
            raise fields.wrong_field("time_unit", f"none of {', '.join(_UNITS)}")
        yield NamedTest(
            number=number,
            name=_ADDED.sub("", fields.word("run_name", row.get("name"))).removeprefix("BM_"),
            samples=(fields.number_of("real_time", _MOST_TIME) * _UNITS[unit],),
            deviation=0.0,
            metric="hot",
            clock="host",
            device="",
            finished_at=moment,
            settings={name: value for name, value in build.items() if value},
        )


def _of_nvbench(printed: Printed, file: Row) -> Iterator[NamedTest]:
    devices = {str(row.get("id")): str(row.get("name", "")) for row in _list(file, "devices")}
    number = 0
    for benchmark in _list(file, "benchmarks"):
        for state in _list(benchmark, "states"):
            number += 1
            times = {str(row.get("tag")): _value(row) for row in _list(state, "summaries")}
            if state.get("is_skipped") or not {_HOT, _COLD} & times.keys():
                continue
            axes = {str(row.get("name")): row.get("value") for row in _list(state, "axis_values")}
            metric = "hot" if _HOT in times else "cold"
            row = {
                "name": axes.get("case", benchmark.get("name")),
                "device": devices.get(str(state.get("device")), ""),
                "time": times.get(_HOT, times.get(_COLD)),
            }
            fields = Fields(printed, number, row)
            seconds = fields.number_of("time", _MOST_TIME)
            has_spread = metric == "cold" and _SPREAD in times
            spread = Fields(printed, number, {"stdev": times.get(_SPREAD)})
            yield NamedTest(
                number=number,
                name=fields.word("name"),
                samples=(seconds,),
                deviation=seconds * spread.number_of("stdev", 1e6) if has_spread else 0.0,
                metric=metric,
                clock="gpu",
                device=fields.word("device"),
                finished_at=0.0,
                settings={},
            )


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
