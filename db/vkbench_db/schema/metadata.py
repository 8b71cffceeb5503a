"""What every table and view is declared with: Core tables whose columns have static types.

    class HostColumns(Columns):
        id: Named[int] = Column(primary_key=True)
        name: Named[str] = Column(Text, unique=True)

    host = Table("host", TABLES, HostColumns)  # host.c.name is a Column[str]

No module here imports SQLAlchemy's ORM, which takes 0.1 s: every command loads these tables.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import DateTime, Dialect, MetaData, TypedColumns, TypeDecorator

Json = dict[str, Any]


class Columns(TypedColumns):
    """The columns of a table; a type checker refuses the name of a column that is not there."""

    if TYPE_CHECKING:
        __getattr__: None  # type: ignore[assignment,misc]


# Constraints have names, so that later migrations can change them.
TABLES = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)
VIEWS = MetaData()  # the public views; migrations create them


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
