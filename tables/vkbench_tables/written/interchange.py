"""Results in the formats of other tools: llama.cpp's SQL, Bencher's JSON, JUnit's XML."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from vkbench.case import MODEL
from vkbench.errors import UsageError
from vkbench.job import CHECKS, JobState

if TYPE_CHECKING:
    from vkbench_db.ask.results import ResultRow

    Results = Sequence[ResultRow]

SQL_TABLE = "test_backend_ops"  # what compare-llama-bench.py of llama.cpp reads of kernels
SQL_COLUMNS: Mapping[str, str] = {
    "test_time": "TEXT",
    "build_commit": "TEXT",
    "backend_name": "TEXT",
    "op_name": "TEXT",
    "op_params": "TEXT",
    "test_mode": "TEXT",
    "supported": "INTEGER",
    "passed": "INTEGER",
    "error_message": "TEXT",
    "time_us": "REAL",
    "flops": "REAL",
    "bandwidth_gb_s": "REAL",
    "memory_kb": "INTEGER",
    "n_runs": "INTEGER",
}
SHA_DIGITS = 12
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MEASURES = {"hot": "latency", "cold": "cold-latency"}  # Bencher knows latency, in nanoseconds
_JUNIT = {JobState.WRONG: "failure", JobState.FAILED: "error", JobState.SKIPPED: "skipped"}


class Interchange(StrEnum):
    """A format that another tool reads."""

    LLAMA_BENCH = "llama-bench"  # the table of llama.cpp's llama-bench, of whole models
    LLAMA_BENCH_JSON = "llama-bench-json"  # the same as its JSON
    LLAMA_BENCH_SQL = "llama-bench-sql"  # SQL for compare-llama-bench.py of llama.cpp
    BMF = "bmf"  # Bencher's metric format
    JUNIT = "junit"  # a test case for each result, for CI
    MD = "md"  # a table in Markdown


def in_sql(results: Results) -> str:
    """SQL that makes a table of kernels and fills it, as llama.cpp's tools print with `-o sql`.

    A build is a bundle of kernels, a backend is a device. Whole models have a table of their own
    (llama_bench.py); where nothing else is asked for, there is none of kernels.
    """
    kernels = [row for row in results if row.kernel != MODEL]
    if results and not kernels:
        return ""
    columns = ",\n".join(f"  {name} {kind}" for name, kind in SQL_COLUMNS.items())
    lines = [f"CREATE TABLE IF NOT EXISTS {SQL_TABLE} (\n{columns}\n);\n"]
    for row in _choose_rated_rows(kernels):
        values = ", ".join(map(sql_literal, _sql_row(row)))
        lines.append(f"INSERT INTO {SQL_TABLE} ({', '.join(SQL_COLUMNS)}) VALUES ({values});")
    return "\n".join(lines) + "\n"


def in_bmf(results: Results) -> str:
    """Bencher's metric format: the times of each case in nanoseconds, with their intervals.

    UsageError for results of several devices: a report of Bencher is of one testbed.
    """
    devices = dict.fromkeys(f"{row.device_name} ({row.device})" for row in results)
    if len(devices) > 1:
        raise UsageError(
            f"a report of Bencher is of one device, and these results are of {len(devices)}: "
            "choose one with --device"
        )
    report: dict[str, dict[str, dict[str, float]]] = {}
    for row in results:
        if row.seconds is not None and row.timing_name in _MEASURES:
            name = row.case_name if row.variant == "auto" else f"{row.case_name} {row.variant}"
            measures = report.setdefault(name, {})
            measures.setdefault(
                _MEASURES[row.timing_name], _measures_of(row)
            )  # the newest is first
    return json.dumps(report, indent=2) + "\n"


def in_junit(results: Results) -> str:
    """JUnit's XML: a suite for each device, a test case for each job."""
    root = ElementTree.Element("testsuites", name="vkbench")
    by_device: dict[str, list[list[ResultRow]]] = {}
    for _, of_job in groupby(results, key=lambda row: row.job):
        rows = list(of_job)
        by_device.setdefault(f"{rows[0].host}/{rows[0].device_name}", []).append(rows)
    for device, jobs in by_device.items():
        root.append(_suite(device, jobs))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


WRITERS: Mapping[Interchange, Callable[[Results], str]] = {
    Interchange.LLAMA_BENCH_SQL: in_sql,
    Interchange.BMF: in_bmf,
    Interchange.JUNIT: in_junit,
}


def _choose_rated_rows(results: Results) -> Iterable[ResultRow]:
    """One row a job: of a timed one its hot metric, or the only one that it has."""
    for _, of_job in groupby(results, key=lambda row: row.job):
        rows = list(of_job)
        yield next((row for row in rows if row.timing_name == "hot"), rows[0])


def _sql_row(row: ResultRow) -> tuple[object, ...]:
    _, _, params = row.case_name.partition("/")
    return (
        datetime.fromtimestamp(row.finished_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        row.bundle[:SHA_DIGITS],
        f"{row.host}/{row.device_name}",
        row.kernel,
        params if row.variant == "auto" else f"{params} {row.variant}",
        "test" if row.mode in CHECKS else "perf",
        int(row.state != JobState.SKIPPED),
        int(row.state == JobState.PASSED),
        row.reason,
        (row.seconds or 0.0) * 1e6,
        (row.gflop_per_second or 0.0) * 1e9,
        row.gb_per_second or 0.0,
        0,  # memory_kb: not recorded
        row.count or 0,
    )


def sql_literal(value: object) -> str:
    """A literal of SQL; text holds no NUL, which SQLite ends a statement at."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''").replace("\0", "") + "'"
    return repr(value)


def _measures_of(row: ResultRow) -> dict[str, float]:
    bounds = {"value": row.seconds, "lower_value": row.low, "upper_value": row.high}
    return {name: seconds * 1e9 for name, seconds in bounds.items() if seconds is not None}


def _suite(device: str, jobs: Sequence[Sequence[ResultRow]]) -> ElementTree.Element:
    states = [rows[0].state for rows in jobs]
    suite = ElementTree.Element("testsuite", name=_xml(device), tests=str(len(jobs)))
    for attribute, state in (
        ("failures", JobState.WRONG),
        ("errors", JobState.FAILED),
        ("skipped", JobState.SKIPPED),
    ):
        suite.set(attribute, str(states.count(state)))
    suite.extend(_test_case(rows) for rows in jobs)
    return suite


def _test_case(rows: Sequence[ResultRow]) -> ElementTree.Element:
    first = rows[0]
    name = " ".join(filter(None, (first.case_name, first.variant, f"({first.mode})")))
    case = ElementTree.Element("testcase", classname=_xml(first.kernel), name=_xml(name))
    timed = [row for row in rows if row.metric and row.seconds is not None]
    if timed:
        properties = ElementTree.SubElement(case, "properties")
        for row in timed:
            value = repr(row.seconds)
            ElementTree.SubElement(
                properties, "property", name=f"{row.timing_name}_seconds", value=value
            )
    if tag := _JUNIT.get(JobState(first.state)):
        reason = ": ".join(filter(None, (first.cause, first.reason)))
        ElementTree.SubElement(case, tag, type=first.state, message=_xml(reason))
    return case


def _xml(text: str) -> str:
    """Text without the characters that XML has no way to write."""
    return _NO_XML.sub("�", text)
