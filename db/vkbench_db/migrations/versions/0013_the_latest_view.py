"""the view of the latest results reads the table of them"""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("DROP VIEW v_latest")
    op.execute("""
        CREATE VIEW v_latest AS
        SELECT v_results.* FROM latest JOIN v_results ON v_results.job = latest.job_id
    """)
