"""Moments: Unix seconds in Python, a UTC timestamp in the database."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import DateTime, Dialect, TypeDecorator


class Moment(TypeDecorator[float]):
    """A timestamp that people can read in SQL and that code handles as Unix seconds."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> datetime | None:
        return None if value is None else datetime.fromtimestamp(value, UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> float | None:
        if value is None:
            return None
        # SQLite keeps no zone; what is stored there is UTC
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
