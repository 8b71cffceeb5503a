"""an index of the jobs of builds, which are few among those of kernels"""

from __future__ import annotations

from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "CREATE INDEX ix_job_build ON job "
        "(bundle, case_id, device_id, mode, variant, finished_at, id, state, run_id, "
        "arm_kind) "
        "WHERE arm_kind = 'build'"
    )
