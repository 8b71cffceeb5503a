"""the first tables"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_ONLY = sa.text("finished_at IS NOT NULL")
_FINISHED: dict[str, Any] = {"sqlite_where": _ONLY, "postgresql_where": _ONLY}

# Each finished job once for each metric (once without a metric where nothing was timed).
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
        measurement.warnings AS warnings,
        job.finished_at AS finished_at
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

# Of those, the newest job of each device, case, mode and variant asked for.
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
    op.create_table(
        "blob",
        sa.Column("sha", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sha", name="pk_blob"),
    )
    op.create_table(
        "bundle",
        sa.Column("sha", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("manifest", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("sha", name="pk_bundle"),
    )
    op.create_table(
        "environment",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("driver", sa.Text(), nullable=False),
        sa.Column("driver_version", sa.Text(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_environment"),
    )
    op.create_table(
        "host",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_host"),
        sa.UniqueConstraint("name", name="uq_host_name"),
    )
    op.create_table(
        "kernel_case",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kernel", sa.Text(), nullable=False),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("types", sa.Text(), nullable=False),
        sa.Column("shape", sa.Text(), nullable=False),
        sa.Column("params", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_kernel_case"),
        sa.UniqueConstraint("name", name="uq_kernel_case_name"),
    )
    op.create_table(
        "run",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("selection", sa.JSON(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("cancelled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("imported_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_run"),
        sa.UniqueConstraint("idempotency_key", name="uq_run_idempotency_key"),
        sa.UniqueConstraint("uuid", name="uq_run_uuid"),
    )
    op.create_table(
        "bundle_blob",
        sa.Column("bundle", sa.Text(), nullable=False),
        sa.Column("blob", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["blob"], ["blob.sha"], name="fk_bundle_blob_blob_blob"),
        sa.ForeignKeyConstraint(["bundle"], ["bundle.sha"], name="fk_bundle_blob_bundle_bundle"),
        sa.PrimaryKeyConstraint("bundle", "blob", name="pk_bundle_blob"),
    )
    op.create_table(
        "device",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("host_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("bundle", sa.Text(), nullable=False),
        sa.Column("environment", sa.Text(), nullable=False),
        sa.Column("last_seen", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_run", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["host.id"], name="fk_device_host_id_host"),
        sa.PrimaryKeyConstraint("id", name="pk_device"),
        sa.UniqueConstraint("key", name="uq_device_key"),
    )
    op.create_table(
        "job",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("case_id", sa.Integer(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("variant", sa.Text(), nullable=False),
        sa.Column("bundle", sa.Text(), nullable=False),
        sa.Column("limit_seconds", sa.Float(), nullable=False),
        sa.Column("measure_seconds", sa.Float(), nullable=False),
        sa.Column("noise", sa.Float(), nullable=False),
        sa.Column("estimate_seconds", sa.Float(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("dispatches", sa.Integer(), nullable=False),
        sa.Column("dispatched_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("settled_token", sa.Integer(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["case_id"], ["kernel_case.id"], name="fk_job_case_id_kernel_case"),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name="fk_job_device_id_device"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_job_run_id_run"),
        sa.PrimaryKeyConstraint("id", name="pk_job"),
        sa.UniqueConstraint("run_id", "position", name="uq_job_run_id_position"),
    )
    op.create_index("ix_job_device_finished", "job", ["device_id", "finished_at"], **_FINISHED)
    op.create_index(
        "ix_job_device_id_state_run_id_id", "job", ["device_id", "state", "run_id", "id"]
    )
    op.create_index("ix_job_run_finished", "job", ["run_id", "finished_at", "id"], **_FINISHED)
    op.create_index("ix_job_finished", "job", ["finished_at", "id"], **_FINISHED)
    op.create_index("ix_job_run_id_state", "job", ["run_id", "state"])
    op.create_index(
        "ix_job_series",
        "job",
        ["case_id", "device_id", "mode", "variant", "finished_at", "id"],
        **_FINISHED,
    )

    op.create_table(
        "attempt",
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("variant", sa.Text(), nullable=False),
        sa.Column("kernel_sha", sa.Text(), nullable=False),
        sa.Column("environment", sa.Text(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("telemetry", sa.JSON(), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_attempt_job_id_job"),
        sa.PrimaryKeyConstraint("job_id", "token", name="pk_attempt"),
    )
    op.create_table(
        "measurement",
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("mad", sa.Float(), nullable=False),
        sa.Column("low", sa.Float(), nullable=False),
        sa.Column("high", sa.Float(), nullable=False),
        sa.Column("confidence", sa.Float(), nullable=False),
        sa.Column("best", sa.Float(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("launches", sa.Integer(), nullable=False),
        sa.Column("stop", sa.Text(), nullable=False),
        sa.Column("clock", sa.Text(), nullable=False),
        sa.Column("bytes_moved", sa.BigInteger(), nullable=False),
        sa.Column("flops", sa.BigInteger(), nullable=False),
        sa.Column("warnings", sa.JSON(), nullable=False),
        sa.Column("samples", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id", "token"],
            ["attempt.job_id", "attempt.token"],
            name="fk_measurement_job_id_token_attempt",
        ),
        sa.PrimaryKeyConstraint("job_id", "metric", name="pk_measurement"),
    )
    op.create_table(
        "verdict",
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("nmse", sa.Float(), nullable=True),
        sa.Column("nmse_limit", sa.Float(), nullable=False),
        sa.Column("max_abs", sa.Float(), nullable=True),
        sa.Column("max_abs_limit", sa.Float(), nullable=False),
        sa.Column("compared", sa.BigInteger(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("nonfinite", sa.BigInteger(), nullable=False),
        sa.Column("unwritten", sa.BigInteger(), nullable=False),
        sa.Column("guard_bytes", sa.BigInteger(), nullable=False),
        sa.Column("unrepeated", sa.BigInteger(), nullable=False),
        sa.Column("first_bad", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id", "token"],
            ["attempt.job_id", "attempt.token"],
            name="fk_verdict_job_id_token_attempt",
        ),
        sa.PrimaryKeyConstraint("job_id", name="pk_verdict"),
    )
    op.execute(f"CREATE VIEW v_results AS {_RESULTS}")
    op.execute(f"CREATE VIEW v_latest AS {_RESULTS} {_NEWEST}")
