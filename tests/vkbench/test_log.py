"""Logs are one line an event, with its fields."""

from __future__ import annotations

import logging
from logging.handlers import QueueHandler
from queue import SimpleQueue
from typing import Any

from vkbench import log


def line(name: str, **fields: Any) -> str:
    records: SimpleQueue[logging.LogRecord] = SimpleQueue()
    logger = logging.Logger("part")
    logger.addHandler(QueueHandler(records))
    log.event(logger, name, **fields)
    return log.KeyValue().format(records.get(timeout=1))


def test_a_line_has_time_level_logger_event_and_fields() -> None:
    said = line("job_ended", job=41, outcome="passed", seconds=0.125)
    assert said.endswith("Z info part job_ended job=41 outcome=passed seconds=0.125")


def test_values_with_blanks_are_quoted_and_stay_on_one_line() -> None:
    said = line("failed", reason='say "no"\nor a=b', empty="")
    assert said.endswith('failed reason="say \'no\' or a=b" empty=""')


def test_a_field_that_is_none_is_left_out() -> None:
    assert line("x", reason=None, job=1).endswith("x job=1")
