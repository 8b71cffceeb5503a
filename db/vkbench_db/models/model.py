"""What all tables share."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, Float, LargeBinary, MetaData, Text
from sqlalchemy.orm import DeclarativeBase

Json = dict[str, Any]


class Model(DeclarativeBase):
    """What all tables share: named constraints, so that later migrations can speak of them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy's own form
        str: Text,
        float: Float,
        bytes: LargeBinary,
        Json: JSON,
    }
