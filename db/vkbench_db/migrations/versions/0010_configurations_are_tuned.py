"""the fastest configurations that sweeps found, and the settings that results ran with"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

# As before, and the settings at the end.
_RESULTS = """
    SELECT
        host.name AS host,
        device.key AS device,
        device.name AS device_name,
        environment.driver AS driver,
        environment.driver_version AS driver_version,
        attempt.environment AS environment,
        kernel_case.name AS case_name,
        kernel_case.kernel AS kernel,
        kernel_case.format AS format,
        kernel_case.types AS types,
        kernel_case.shape AS shape,
        kernel_case.params AS params,
        job.mode AS mode,
        job.variant AS variant,
        attempt.variant AS variant_run,
        attempt.kernel_sha AS kernel_sha,
        job.bundle AS bundle,
        run.id AS run,
        run.uuid AS run_uuid,
        run.label AS run_label,
        run.track AS track,
        job.id AS job,
        job.state AS state,
        job.cause AS cause,
        job.reason AS reason,
        job.tries AS tries,
        verdict.path AS path,
        verdict.nmse AS nmse,
        verdict.max_abs AS max_abs,
        measurement.metric AS metric,
        measurement.seconds AS seconds,
        measurement.mad AS mad,
        measurement.low AS low,
        measurement.high AS high,
        measurement.best AS best,
        measurement.count AS count,
        measurement.stop AS stop,
        measurement.bytes_moved / NULLIF(measurement.seconds * 1e9, 0) AS gb_per_second,
        measurement.flops / NULLIF(measurement.seconds * 1e9, 0) AS gflop_per_second,
        measurement.roof_fraction AS roof_fraction,
        measurement.warnings AS warnings,
        measurement.flag AS flag,
        measurement.series_id AS series,
        job.finished_at AS finished_at,
        measurement.path_fraction AS path_fraction,
        attempt.settings AS settings
    FROM job
    JOIN run ON run.id = job.run_id
    JOIN device ON device.id = job.device_id
    JOIN host ON host.id = device.host_id
    JOIN kernel_case ON kernel_case.id = job.case_id
    LEFT JOIN attempt ON attempt.job_id = job.id AND attempt.token = job.settled_token
    LEFT JOIN environment ON environment.hash = attempt.environment
    LEFT JOIN verdict ON verdict.job_id = job.id
    LEFT JOIN measurement ON measurement.job_id = job.id
    WHERE job.finished_at IS NOT NULL
"""

_NEWEST = """
    AND job.id = (
        SELECT newest.id FROM job AS newest
        WHERE newest.case_id = job.case_id AND newest.device_id = job.device_id
            AND newest.mode = job.mode AND newest.variant = job.variant
            AND newest.finished_at IS NOT NULL
        ORDER BY newest.finished_at DESC, newest.id DESC LIMIT 1
    )
"""


def upgrade() -> None:
    op.add_column("attempt", sa.Column("settings", sa.Text(), nullable=False, server_default=""))
    for view in ("v_results", "v_latest"):
        op.execute(f"DROP VIEW {view}")
    op.execute(f"CREATE VIEW v_results AS {_RESULTS}")
    op.execute(f"CREATE VIEW v_latest AS {_RESULTS} {_NEWEST}")
    # What sweeps found:
    op.create_table(
        "tuned",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("case_id", sa.Integer(), nullable=False),
        sa.Column("driver", sa.Text(), nullable=False),
        sa.Column("driver_version", sa.Text(), nullable=False),
        sa.Column("configuration", sa.Text(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("estimated", sa.Text(), nullable=False),
        sa.Column("estimated_seconds", sa.Float(), nullable=False),
        sa.Column("measured_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_tuned_run_id_run"),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name="fk_tuned_device_id_device"),
        sa.ForeignKeyConstraint(
            ["case_id"], ["kernel_case.id"], name="fk_tuned_case_id_kernel_case"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_tuned"),
        sa.UniqueConstraint(
            "run_id", "device_id", "case_id", name="uq_tuned_run_id_device_id_case_id"
        ),
    )
    op.create_index(
        "ix_tuned_device_id_case_id_measured_at", "tuned", ["device_id", "case_id", "measured_at"]
    )
