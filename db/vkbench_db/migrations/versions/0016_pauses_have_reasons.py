"""a paused device says why, who paused it and when; attempts that end badly are found at once"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    false = sa.false()
    for name in ("paused_reason", "paused_by"):
        op.add_column("device", sa.Column(name, sa.Text(), nullable=False, server_default=""))
    for name in ("recalled", "on_trial"):
        op.add_column("device", sa.Column(name, sa.Boolean(), nullable=False, server_default=false))
    for name in ("paused_at", "resumed_at", "pause_told_at"):
        op.add_column("device", sa.Column(name, moment, nullable=True))
    where = sa.text("outcome <> 'passed'")
    op.create_index(
        "ix_attempt_unpassed",
        "attempt",
        ["recorded_at"],
        sqlite_where=where,
        postgresql_where=where,
    )
