"""the first schema; its number is that of the last one before any release, which made the same"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0021"
down_revision = None
branch_labels = None
depends_on = None

_WORDS_OF_SQLITE = {
    "SERIAL": "INTEGER",
    "TIMESTAMPTZ": "DATETIME",
    "BYTEA": "BLOB",
    "DEFAULT false": "DEFAULT 0",
}


def upgrade() -> None:
    tx = op.get_bind()
    statements = Path(__file__).with_name("first_schema.sql").read_text()
    if tx.dialect.name == "sqlite":
        for word, word_of_sqlite in _WORDS_OF_SQLITE.items():
            statements = statements.replace(word, word_of_sqlite)
    for statement in statements.strip().removesuffix(";").split(";\n"):
        tx.exec_driver_sql(statement)
