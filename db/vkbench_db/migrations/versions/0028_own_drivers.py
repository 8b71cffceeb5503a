"""the drivers that hosts ran on, of which workers keep copies"""

from __future__ import annotations

from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE device ADD COLUMN own_drivers JSON")
