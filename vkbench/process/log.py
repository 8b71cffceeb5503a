"""Logs: one event name and its fields a line, `job_ended job=41 outcome=passed`, or as JSON.

A line that concerns jobs names them in `job`, their runs in `run` and their device in `device`.

Standard logging with a small formatter rather than structlog: records of Celery and SQLAlchemy come
through the same lines, and nothing has to be installed on a GPU host for it.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import time
from collections.abc import Iterable

from vkbench.words.visible import visible_lines

TEXT, JSON = "text", "json"  # styles
_FIELDS = "vkbench_fields"
_TIME = "%Y-%m-%dT%H:%M:%SZ"


def event(
    logger: logging.Logger, name: str, /, level: int = logging.INFO, **fields: object
) -> None:
    """Log one event; a field that is None is left out."""
    if logger.isEnabledFor(level):
        logger.log(level, name, extra={_FIELDS: fields})


def warn(logger: logging.Logger, name: str, /, **fields: object) -> None:
    """Log an event that an operator should look at."""
    event(logger, name, logging.WARNING, **fields)


def failure(logger: logging.Logger, name: str, error: Exception, /, **fields: object) -> None:
    """Log an error that nobody expected, with its traceback."""
    logger.error(name, exc_info=error, extra={_FIELDS: fields})


def numbers(ids: Iterable[int]) -> str:
    """Numbers of jobs or runs as a field, each once: `41,42`."""
    return ",".join(map(str, dict.fromkeys(ids)))


def set_up(level: int = logging.INFO, *, style: str = TEXT) -> None:
    """Send all logs of this process to standard error, one line a record."""
    handler = StandardError()
    handler.setFormatter(JsonLine() if style == JSON else KeyValue())
    logging.basicConfig(level=level, handlers=[handler], force=True)


class StandardError(logging.Handler):
    """Writes to what is standard error at that moment: an earlier one may be closed by then."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record as one line."""
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


class KeyValue(logging.Formatter):
    """`time level logger event key=value ...`, values quoted where they hold blanks."""

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__(datefmt=_TIME)

    def format(self, record: logging.LogRecord) -> str:
        """One line a record, a traceback after it."""
        fields: dict[str, object] = getattr(record, _FIELDS, {})
        words = [
            self.formatTime(record, self.datefmt),
            record.levelname.lower(),
            record.name,
            visible_lines(record.getMessage()),
            *(f"{key}={_quote_value(value)}" for key, value in fields.items() if value is not None),
        ]
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        return " ".join(words) + (f"\n{visible_lines(trace)}" if trace else "")


class JsonLine(logging.Formatter):
    """One JSON object a record: time, level, logger, event, and the event's fields."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        """One line a record, its traceback in it."""
        fields: dict[str, object] = getattr(record, _FIELDS, {})
        line = {key: _json_value_of(value) for key, value in fields.items() if value is not None}
        line |= {
            "time": self.formatTime(record, _TIME),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def _json_value_of(value: object) -> object:
    """A value for JSON; numbers that JSON lacks, and other types, become text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if isinstance(value, bool | int) else str(value)


def _quote_value(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else visible_lines(str(value))
    plain = text and not any(char in ' "=\n' for char in text)
    return text if plain else '"' + text.replace('"', "'").replace("\n", " ") + '"'
