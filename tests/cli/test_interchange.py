"""Results in formats of other tools, each read back by a parser of that format."""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

from commands import Captured, run_command
from planted_runs import CASES, Past
from vkbench_tables.written.interchange import SQL_COLUMNS

NASTY = "it's <b>\"bad\"</b> & '); DROP TABLE x; -- \x00\x1b[31m ü�"


def database_of(script: str) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.executescript(script)
    connection.row_factory = sqlite3.Row
    return connection


@pytest.fixture
def nasty(past: Past) -> Past:
    """Names and reasons that try to break out of every format."""
    device = replace(past.device, key="ab" * 6, name=NASTY, uuid="1" * 32)
    past.add_device(device)
    past.run("nasty", past.done(1e-3), past.done(2e-3), past.wrong(NASTY), device=device.key)
    return past


def test_sql_makes_the_table_that_llama_cpp_compares(past: Past, capsys: Captured) -> None:
    script = run_command(capsys, "results", "--run", "after", "--as", "llama-bench-sql")[0]
    with database_of(script) as connection:
        rows = [dict(row) for row in connection.execute("SELECT * FROM test_backend_ops")]
    assert list(rows[0]) == list(SQL_COLUMNS)
    by_name = {f"{row['op_name']}/{row['op_params']}": row for row in rows}
    assert set(by_name) == set(CASES)
    copy = by_name[CASES[0]]
    assert copy["time_us"] == pytest.approx(2000.0)
    assert (copy["passed"], copy["supported"], copy["test_mode"]) == (1, 1, "perf")
    assert copy["bandwidth_gb_s"] == pytest.approx(10_000 / 2e-3 / 1e9)
    wrong = by_name[CASES[2]]
    assert (wrong["passed"], wrong["error_message"]) == (0, "NMSE 0.5 is over 1e-10")


def test_sql_can_be_run_twice_into_one_database(past: Past, capsys: Captured) -> None:
    script = run_command(capsys, "results", "--as", "llama-bench-sql")[0]
    with database_of(script) as connection:
        connection.executescript(script)
        assert connection.execute("SELECT count(*) FROM test_backend_ops").fetchone()[0] == 6


def test_bmf_has_times_in_nanoseconds_with_their_interval(past: Past, capsys: Captured) -> None:
    report = json.loads(run_command(capsys, "results", "--run", "before", "--as", "bmf")[0])
    assert set(report) == set(CASES)
    assert report[CASES[0]]["latency"] == {
        "value": pytest.approx(1e6),
        "lower_value": pytest.approx(0.99e6),
        "upper_value": pytest.approx(1.01e6),
    }
    assert set(report[CASES[0]]) == {"latency", "cold-latency"}


def test_bmf_has_the_newest_of_a_history(past: Past, capsys: Captured) -> None:
    report = json.loads(run_command(capsys, "results", "--history", "--as", "bmf")[0])
    assert report[CASES[0]]["latency"]["value"] == pytest.approx(2e6)


def test_bmf_is_of_one_device(nasty: Past, capsys: Captured) -> None:
    assert "choose one with --device" in run_command(capsys, "results", "--as", "bmf", code=2)[1]
    report = json.loads(
        run_command(capsys, "results", "--as", "bmf", "--device", nasty.device.key)[0]
    )
    assert CASES[0] in report


def test_junit_has_a_case_for_each_result(past: Past, capsys: Captured) -> None:
    root = ElementTree.fromstring(
        run_command(capsys, "results", "--run", "after", "--as", "junit")[0]
    )
    [suite] = root
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "0")
    cases = {case.get("name", "").partition(" ")[0]: case for case in suite}
    assert set(cases) == set(CASES)
    failure = cases[CASES[2]].find("failure")
    assert failure is not None
    assert failure.get("message") == "NMSE 0.5 is over 1e-10"
    measured = {
        property_.get("name"): property_.get("value")
        for property_ in cases[CASES[0]].iter("property")
    }
    assert float(measured["hot_seconds"] or 0) == pytest.approx(2e-3)


def test_markdown_has_every_row(past: Past, capsys: Captured) -> None:
    text = run_command(capsys, "results", "--run", "after", "--as", "md")[0]
    headings, rule, *rows = text.splitlines()
    assert headings.startswith("| host | device | case |")
    assert set(rule) <= set("|- :")
    assert len(rows) == len(CASES)


@pytest.mark.parametrize("form", ["llama-bench-sql", "bmf", "junit", "md"])
def test_names_of_others_stay_text(nasty: Past, capsys: Captured, form: str) -> None:
    text = run_command(capsys, "results", "--device", "ab" * 6, "--as", form)[0]
    assert PARSED[form](text)


def _sql(text: str) -> bool:
    with database_of(text) as connection:
        reasons = [
            row["error_message"] for row in connection.execute("SELECT * FROM test_backend_ops")
        ]
    return NASTY.replace("\x00", "") in reasons


def _junit(text: str) -> bool:
    [suite] = ElementTree.fromstring(text)
    [message] = [failure.get("message", "") for failure in suite.iter("failure")]
    return message.replace("�", "") == re.sub("[\x00\x1b�]", "", NASTY)


PARSED: dict[str, Any] = {
    "llama-bench-sql": _sql,
    "bmf": lambda text: len(json.loads(text)) == 2,
    "junit": _junit,
    "md": lambda text: len(text.splitlines()) == 2 + len(CASES),
}


@pytest.mark.parametrize("form", ["llama-bench-sql", "bmf", "junit"])
def test_without_results_there_is_a_valid_empty_file(
    past: Past, capsys: Captured, form: str
) -> None:
    text = run_command(capsys, "results", "--state", "failed", "--as", form)[0]
    empty: dict[str, Any] = {
        "llama-bench-sql": lambda: (
            database_of(text).execute("SELECT count(*) FROM test_backend_ops").fetchone()[0]
        ),
        "bmf": lambda: len(json.loads(text)),
        "junit": lambda: len(ElementTree.fromstring(text)),
    }
    assert empty[form]() == 0


def test_the_option_for_formats_of_weights_points_to_this_one(past: Past, capsys: Captured) -> None:
    assert (
        "--as junit prints that" in run_command(capsys, "results", "--format", "junit", code=2)[1]
    )
    assert "only one of" in run_command(capsys, "results", "--as", "bmf", "--json", code=2)[1]
    assert "'junit'" in run_command(capsys, "results", "--as", "xml", code=2)[1]
