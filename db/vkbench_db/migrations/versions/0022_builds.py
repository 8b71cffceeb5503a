"""builds of programs: what computes a job is a bundle of kernels, or a build"""

from __future__ import annotations

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    moment = "DATETIME" if op.get_bind().dialect.name == "sqlite" else "TIMESTAMPTZ"
    op.execute(
        "CREATE TABLE build (sha TEXT NOT NULL, program TEXT NOT NULL, name TEXT NOT NULL, "
        f"files JSON NOT NULL, added_at {moment} NOT NULL, CONSTRAINT pk_build PRIMARY KEY (sha))"
    )
    op.execute(
        "ALTER TABLE job ADD COLUMN arm_kind TEXT DEFAULT 'bundle' NOT NULL "
        "CONSTRAINT ck_job_arm_kind CHECK (arm_kind IN ('bundle', 'build', 'driver'))"
    )
