"""How a run's end is told: which rows, which counts, which exit code."""

from __future__ import annotations

import io
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from vkbench.job import JobState
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.report import by_device, exit_code, reasons, summary, telling
from vkbench_db.ask.results import ResultRow
from vkbench_tables.results import table


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        ({JobState.PASSED: 3, JobState.SKIPPED: 1}, 0),
        ({JobState.PASSED: 3, JobState.WRONG: 1, JobState.FAILED: 1}, 3),
        ({JobState.PASSED: 3, JobState.FAILED: 1}, 4),
        ({JobState.SKIPPED: 3}, 7),
        ({JobState.CANCELLED: 3}, 7),
        ({}, 7),
    ],
)
def test_the_exit_code_says_the_worst(counts: dict[JobState, int], code: int) -> None:
    assert exit_code(counts) == code


def test_passed_checks_are_counted_where_there_is_more_to_tell() -> None:
    check = {"hot_seconds": None, "verdict": "passed"}
    wrong = {"hot_seconds": None, "verdict": "wrong"}
    timed = {"hot_seconds": 1.0, "verdict": "passed"}
    assert telling([check, wrong, check, timed]) == [wrong, timed]
    assert telling([check, check]) == [check, check]
    skipped = {"hot_seconds": None, "verdict": "skipped"}
    assert telling([skipped, timed]) == [timed]
    assert telling([skipped]) == [skipped]
    assert summary(3, {JobState.PASSED: 3, JobState.WRONG: 1}, 2) == (
        "run 3: 3 passed, 1 wrong (2 passed checks not shown: --all)"
    )
    assert summary(3, {JobState.PASSED: 2}, 1) == (
        "run 3: 2 passed (1 passed check not shown: --all)"
    )
    assert summary(3, {JobState.PASSED: 4, JobState.SKIPPED: 3}, 2, 3) == (
        "run 3: 4 passed, 3 skipped (2 passed checks and 3 skipped not shown: --all)"
    )


def test_each_reason_for_skipping_is_told_once() -> None:
    skipped = [{"reason": f"needs {'x' * (number % 7 + 1)}"} for number in range(14)]
    lines = list(reasons([*skipped, {"reason": "needs x"}]))
    assert lines[0] == "3 skipped: needs x"
    assert lines[-1] == "4 skipped for other reasons"
    assert len(lines) == 6
    assert list(reasons([])) == []


@pytest.mark.parametrize(("keys", "shown"), [(("a1", "b2"), True), (("a1", "a1"), False)])
def test_devices_of_one_name_are_told_apart(keys: tuple[str, str], shown: bool) -> None:
    rows = [
        {"host": "h", "device_name": "GPU", "device": key, "case": f"copy/f32/n{n}"}
        for n, key in enumerate(keys, 1)
    ]
    stream = io.StringIO()
    show(table(rows), Output(), stream)
    assert ("a1" in stream.getvalue()) is shown


def test_results_stand_by_device_however_they_ended() -> None:
    ended = [("b", 4), ("a", 1), ("b", 3), ("a", 2)]
    rows = [SimpleNamespace(device=device, job=job) for device, job in reversed(ended)]
    ordered = by_device(cast("Sequence[ResultRow]", rows))
    assert [row.job for row in ordered] == [1, 2, 4, 3]
