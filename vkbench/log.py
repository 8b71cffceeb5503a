"""Logs: one event name and its fields a line, `job_finished job=41 outcome=passed`.

Standard logging with a small formatter rather than structlog: records of Celery and SQLAlchemy come
through the same lines, and nothing has to be installed on a GPU host for it.
"""

from __future__ import annotations

import logging
import sys
import time

from vkbench.visible import visible_lines

_FIELDS = "vkbench_fields"


def event(
    logger: logging.Logger, name: str, /, level: int = logging.INFO, **fields: object
) -> None:
    """Log one event; a field that is None is left out."""
    if logger.isEnabledFor(level):
        logger.log(level, name, extra={_FIELDS: fields})


def warn(logger: logging.Logger, name: str, /, **fields: object) -> None:
    """Log an event that an operator should look at."""
    event(logger, name, logging.WARNING, **fields)


def set_up(level: int = logging.INFO) -> None:
    """Send all logs of this process to standard error, one line a record."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyValue())
    logging.basicConfig(level=level, handlers=[handler], force=True)


class KeyValue(logging.Formatter):
    """`time level logger event key=value ...`, values quoted where they hold blanks."""

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__(datefmt="%Y-%m-%dT%H:%M:%SZ")

    def format(self, record: logging.LogRecord) -> str:
        """One line a record, a traceback after it."""
        fields: dict[str, object] = getattr(record, _FIELDS, {})
        words = [
            self.formatTime(record, self.datefmt),
            record.levelname.lower(),
            record.name,
            visible_lines(record.getMessage()),
            *(f"{key}={_quoted(value)}" for key, value in fields.items() if value is not None),
        ]
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        return " ".join(words) + (f"\n{visible_lines(trace)}" if trace else "")


def _quoted(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else visible_lines(str(value))
    plain = text and not any(char in ' "=\n' for char in text)
    return text if plain else '"' + text.replace('"', "'").replace("\n", " ") + '"'
