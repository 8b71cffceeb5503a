"""Logs are one line an event, with its fields."""

from __future__ import annotations

import io
import json
import logging
import math
import sys
from datetime import datetime
from logging.handlers import QueueHandler
from queue import SimpleQueue
from typing import Any

import pytest

from vkbench.process import log


def line(name: str, *, formatter: logging.Formatter | None = None, **fields: Any) -> str:
    records: SimpleQueue[logging.LogRecord] = SimpleQueue()
    logger = logging.Logger("part")
    logger.addHandler(QueueHandler(records))
    log.event(logger, name, **fields)
    return (formatter or log.KeyValue()).format(records.get(timeout=1))


def test_a_line_has_time_level_logger_event_and_fields() -> None:
    text = line("job_ended", job=41, outcome="passed", seconds=0.125)
    assert text.endswith("Z info part job_ended job=41 outcome=passed seconds=0.125")


def test_values_with_blanks_are_quoted_and_stay_on_one_line() -> None:
    text = line("failed", reason='say "no"\nor a=b', empty="")
    assert text.endswith('failed reason="say \'no\' or a=b" empty=""')


def test_a_field_that_is_none_is_left_out() -> None:
    assert line("x", reason=None, job=1).endswith("x job=1")


def test_json_has_an_object_a_line_with_the_same_fields() -> None:
    text = line(
        "job_ended",
        formatter=log.JsonLine(),
        job=41,
        reason='two\nlines "quoted"',
        seconds=math.inf,
        error=ValueError("x"),
        none=None,
    )
    assert "\n" not in text
    fields = json.loads(text)
    assert datetime.fromisoformat(fields.pop("time"))
    assert fields == {
        "level": "info",
        "logger": "part",
        "event": "job_ended",
        "job": 41,
        "reason": 'two\nlines "quoted"',
        "seconds": "inf",
        "error": "x",
    }


def test_numbers_are_told_once_each() -> None:
    assert log.numbers([41, 42, 41]) == "41,42"


def test_logs_follow_standard_error_when_an_earlier_one_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A test runner, for one, gives each test a stream of its own and closes it."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    first, second = io.StringIO(), io.StringIO()
    try:
        monkeypatch.setattr(sys, "stderr", first)
        log.set_up()
        monkeypatch.setattr(sys, "stderr", second)
        first.close()
        log.event(logging.getLogger("part"), "job_ended", job=41)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    assert second.getvalue().endswith("Z info part job_ended job=41\n")
    assert second.getvalue().count("\n") == 1  # and no traceback
