"""the latest result of each piece of work, which pages read instead of all"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_WORK = ("device_id", "case_id", "mode", "variant")

# Sweeps are trials, which readers leave out: as vkbench_db.upkeep.tuning knows them.
_FILLED = f"""
    INSERT INTO latest ({", ".join(_WORK)}, job_id, state, finished_at)
    SELECT {", ".join(_WORK)}, id, state, finished_at FROM (
        SELECT {", ".join(f"job.{name}" for name in _WORK)}, job.id, job.state, job.finished_at,
            row_number() OVER (
                PARTITION BY {", ".join(f"job.{name}" for name in _WORK)}
                ORDER BY job.finished_at DESC, job.id DESC
            ) AS place
        FROM job WHERE job.finished_at IS NOT NULL AND job.run_id NOT IN (
            SELECT run.id FROM run
            WHERE run.track = '' AND CAST(run.tags AS text) LIKE '%"tune": %'
        )
    ) AS ranked WHERE place = 1
"""


def upgrade() -> None:
    op.create_table(
        "latest",
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("case_id", sa.Integer(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("variant", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name="fk_latest_device_id_device"),
        sa.ForeignKeyConstraint(
            ["case_id"], ["kernel_case.id"], name="fk_latest_case_id_kernel_case"
        ),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_latest_job_id_job"),
        sa.PrimaryKeyConstraint(*_WORK, name="pk_latest"),
    )
    op.execute(_FILLED)
    op.create_index("ix_latest_case_id", "latest", ["case_id"])
    op.create_index("ix_latest_finished_at_job_id", "latest", ["finished_at", "job_id"])
