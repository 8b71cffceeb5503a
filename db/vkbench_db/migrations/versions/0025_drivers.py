"""drivers through the fleet: which one a job runs through, and which ones a host has"""

from __future__ import annotations

from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE job ADD COLUMN driver TEXT DEFAULT '' NOT NULL")
    op.execute("ALTER TABLE device ADD COLUMN drivers JSON")
