"""what an imported run has left is for another database to run"""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "UPDATE job SET state = 'elsewhere' WHERE state IN ('queued', 'dispatched', 'running') "
        "AND run_id IN (SELECT id FROM run WHERE imported_at IS NOT NULL)"
    )
