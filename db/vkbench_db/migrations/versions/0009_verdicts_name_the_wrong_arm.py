"""the verdict on a pair says which of its outputs are wrong"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

# Reasons of pairs began with the arm; of two wrong ones with the old one.
ARMS = (
    ("new", "reason LIKE 'new: %'"),
    ("old", "reason LIKE 'old: %' AND reason NOT LIKE '%; new: %'"),
    ("both", "reason LIKE 'old: %; new: %'"),
)


def upgrade() -> None:
    column = sa.Column("wrong_arm", sa.Text(), nullable=False, server_default="none")
    with op.batch_alter_table("verdict") as batch:
        batch.add_column(column)
    for arm, condition in ARMS:
        op.execute(
            f"UPDATE verdict SET wrong_arm = '{arm}' WHERE {condition} "
            "AND job_id IN (SELECT id FROM job WHERE mode = 'paired' AND state = 'wrong')"
        )
