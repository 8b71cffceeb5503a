"""series, calibrations, change points, regressions, bisections, schedules"""

from __future__ import annotations

import zlib

import sqlalchemy as sa
from alembic import op

from vkbench_db.migrations.views_0003 import REGRESSIONS, SERIES

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# As before, and whether a timing counts, in which series, and its share of the device's roof.
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
    _tables()
    _columns()
    _compress_blobs()
    for view in ("v_results", "v_latest"):
        op.execute(f"DROP VIEW {view}")
    op.execute(f"CREATE VIEW v_results AS {_RESULTS}")
    op.execute(f"CREATE VIEW v_latest AS {_RESULTS} {_NEWEST}")
    op.execute(f"CREATE VIEW v_series AS {SERIES}")
    op.execute(f"CREATE VIEW v_regressions AS {REGRESSIONS}")
    # What was measured before is placed in its series as if it had just come in.
    op.execute(
        "INSERT INTO fresh (job_id) SELECT id FROM job WHERE settled_token IS NOT NULL"
        " AND mode = 'performance'"
    )


def _tables() -> None:
    op.create_table(
        "baseline",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_baseline"),
        sa.UniqueConstraint("name", name="uq_baseline_name"),
    )
    op.create_table(
        "regression",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("group_key", sa.Text(), nullable=False),
        sa.Column("direction", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_regression"),
    )
    op.create_index("ix_regression_group_key", "regression", ["group_key"])
    op.create_index("ix_regression_state_opened_at", "regression", ["state", "opened_at"])
    op.create_table(
        "schedule",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("cron", sa.Text(), nullable=False),
        sa.Column("selection", sa.JSON(), nullable=False),
        sa.Column("is_enabled", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_schedule"),
        sa.UniqueConstraint("name", name="uq_schedule_name"),
    )
    op.create_table(
        "alert_delivery",
        sa.Column("regression_id", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("next_try_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("error", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["regression_id"], ["regression.id"], name="fk_alert_delivery_regression_id_regression"
        ),
        sa.PrimaryKeyConstraint("regression_id", "state", "channel", name="pk_alert_delivery"),
    )
    op.create_index(
        "ix_alert_delivery_delivered_at_next_try_at",
        "alert_delivery",
        ["delivered_at", "next_try_at"],
    )
    op.create_table(
        "bisection",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("regression_id", sa.Integer(), nullable=True),
        sa.Column("devices", sa.JSON(), nullable=False),
        sa.Column("case_name", sa.Text(), nullable=False),
        sa.Column("variant", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("measure_seconds", sa.Float(), nullable=False),
        sa.Column("bundles", sa.JSON(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("low", sa.Integer(), nullable=False),
        sa.Column("high", sa.Integer(), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("note", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["regression_id"], ["regression.id"], name="fk_bisection_regression_id_regression"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_bisection"),
    )
    op.create_index("ix_bisection_state", "bisection", ["state"])
    op.create_table(
        "regression_event",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("regression_id", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["regression_id"],
            ["regression.id"],
            name="fk_regression_event_regression_id_regression",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_regression_event"),
    )
    op.create_index("ix_regression_event_regression_id", "regression_event", ["regression_id"])
    op.create_index("ix_regression_event_at", "regression_event", ["at"])
    op.create_table(
        "schedule_slot",
        sa.Column("schedule_id", sa.Integer(), nullable=False),
        sa.Column("slot", sa.DateTime(timezone=True), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=True),
        sa.Column("note", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_schedule_slot_run_id_run"),
        sa.ForeignKeyConstraint(
            ["schedule_id"], ["schedule.id"], name="fk_schedule_slot_schedule_id_schedule"
        ),
        sa.PrimaryKeyConstraint("schedule_id", "slot", name="pk_schedule_slot"),
    )
    op.create_table(
        "bisection_step",
        sa.Column("bisection_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("pairs", sa.Integer(), nullable=False),
        sa.Column("ratio", sa.Float(), nullable=True),
        sa.Column("low", sa.Float(), nullable=True),
        sa.Column("high", sa.Float(), nullable=True),
        sa.Column("p", sa.Float(), nullable=True),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["bisection_id"], ["bisection.id"], name="fk_bisection_step_bisection_id_bisection"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_bisection_step_run_id_run"),
        sa.PrimaryKeyConstraint("bisection_id", "position", name="pk_bisection_step"),
    )
    op.create_table(
        "calibration",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("environment", sa.Text(), nullable=False),
        sa.Column("measured_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("read_bytes", sa.Float(), nullable=True),
        sa.Column("copy_bytes", sa.Float(), nullable=True),
        sa.Column("fma_f32", sa.Float(), nullable=True),
        sa.Column("fma_f16", sa.Float(), nullable=True),
        sa.Column("dot_i8", sa.Float(), nullable=True),
        sa.Column("matrices", sa.JSON(), nullable=False),
        sa.Column("launch_seconds", sa.Float(), nullable=True),
        sa.Column("tick_seconds", sa.Float(), nullable=True),
        sa.Column("noise", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(
            ["device_id"], ["device.id"], name="fk_calibration_device_id_device"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_calibration_run_id_run"),
        sa.PrimaryKeyConstraint("id", name="pk_calibration"),
        sa.UniqueConstraint("run_id", "device_id", name="uq_calibration_run_id_device_id"),
    )
    op.create_index(
        "ix_calibration_device_id_environment_measured_at",
        "calibration",
        ["device_id", "environment", "measured_at"],
    )
    op.create_table(
        "canary",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("environment", sa.Text(), nullable=False),
        sa.Column("measured_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("deviation", sa.Float(), nullable=True),
        sa.Column("is_off", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name="fk_canary_device_id_device"),
        sa.PrimaryKeyConstraint("id", name="pk_canary"),
        sa.UniqueConstraint("device_id", "measured_at", name="uq_canary_device_id_measured_at"),
    )
    op.create_index(
        "ix_canary_device_id_environment_measured_at",
        "canary",
        ["device_id", "environment", "measured_at"],
    )
    op.create_table(
        "series",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("device_id", sa.Integer(), nullable=False),
        sa.Column("case_id", sa.Integer(), nullable=False),
        sa.Column("variant", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("environment_class", sa.Text(), nullable=False),
        sa.Column("track", sa.Text(), nullable=False),
        sa.Column("screened_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("screened_job", sa.Integer(), nullable=True),
        sa.Column("screen", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("sigma", sa.Float(), nullable=True),
        sa.Column("noise_kind", sa.Text(), nullable=False),
        sa.Column("autocorrelation", sa.Float(), nullable=True),
        sa.Column("smallest_effect", sa.Float(), nullable=True),
        sa.Column("profiled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("scan_due_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["case_id"], ["kernel_case.id"], name="fk_series_case_id_kernel_case"
        ),
        sa.ForeignKeyConstraint(["device_id"], ["device.id"], name="fk_series_device_id_device"),
        sa.PrimaryKeyConstraint("id", name="pk_series"),
        sa.UniqueConstraint(
            "case_id",
            "device_id",
            "variant",
            "metric",
            "environment_class",
            "track",
            name="uq_series_identity",
        ),
    )
    op.create_index("ix_series_device_id", "series", ["device_id"])
    op.create_index("ix_series_scan_due_at", "series", ["scan_due_at"])
    op.create_table(
        "change_point",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("series_id", sa.Integer(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("direction", sa.Text(), nullable=False),
        sa.Column("before_job", sa.Integer(), nullable=False),
        sa.Column("after_job", sa.Integer(), nullable=False),
        sa.Column("before_kernel", sa.Text(), nullable=False),
        sa.Column("after_kernel", sa.Text(), nullable=False),
        sa.Column("before_bundle", sa.Text(), nullable=False),
        sa.Column("after_bundle", sa.Text(), nullable=False),
        sa.Column("before_environment", sa.Text(), nullable=False),
        sa.Column("after_environment", sa.Text(), nullable=False),
        sa.Column("found_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ratio", sa.Float(), nullable=True),
        sa.Column("low", sa.Float(), nullable=True),
        sa.Column("high", sa.Float(), nullable=True),
        sa.Column("p", sa.Float(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["after_job"], ["job.id"], name="fk_change_point_after_job_job"),
        sa.ForeignKeyConstraint(["before_job"], ["job.id"], name="fk_change_point_before_job_job"),
        sa.ForeignKeyConstraint(
            ["series_id"], ["series.id"], name="fk_change_point_series_id_series"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_change_point"),
        sa.UniqueConstraint(
            "series_id",
            "after_job",
            "direction",
            name="uq_change_point_series_id_after_job_direction",
        ),
    )
    op.create_index("ix_change_point_state", "change_point", ["state"])
    op.create_table(
        "fresh",
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_fresh_job_id_job"),
        sa.PrimaryKeyConstraint("job_id", name="pk_fresh"),
    )
    op.create_table(
        "change_point_event",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("change_point_id", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["change_point_id"],
            ["change_point.id"],
            name="fk_change_point_event_change_point_id_change_point",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_change_point_event"),
    )
    op.create_index(
        "ix_change_point_event_change_point_id", "change_point_event", ["change_point_id"]
    )
    op.create_table(
        "confirmation",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("change_point_id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("pairs", sa.Integer(), nullable=False),
        sa.Column("ratio", sa.Float(), nullable=True),
        sa.Column("low", sa.Float(), nullable=True),
        sa.Column("high", sa.Float(), nullable=True),
        sa.Column("p", sa.Float(), nullable=True),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["change_point_id"],
            ["change_point.id"],
            name="fk_confirmation_change_point_id_change_point",
        ),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_confirmation_run_id_run"),
        sa.PrimaryKeyConstraint("id", name="pk_confirmation"),
        sa.UniqueConstraint("run_id", name="uq_confirmation_run_id"),
    )
    op.create_index("ix_confirmation_change_point_id", "confirmation", ["change_point_id"])
    op.create_index("ix_confirmation_finished_at", "confirmation", ["finished_at"])
    op.create_table(
        "regression_member",
        sa.Column("change_point_id", sa.Integer(), nullable=False),
        sa.Column("regression_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["change_point_id"],
            ["change_point.id"],
            name="fk_regression_member_change_point_id_change_point",
        ),
        sa.ForeignKeyConstraint(
            ["regression_id"],
            ["regression.id"],
            name="fk_regression_member_regression_id_regression",
        ),
        sa.PrimaryKeyConstraint("change_point_id", name="pk_regression_member"),
    )
    op.create_index("ix_regression_member_regression_id", "regression_member", ["regression_id"])


def _columns() -> None:
    op.add_column("attempt", sa.Column("bundle", sa.Text(), server_default="", nullable=False))
    op.create_index("ix_attempt_bundle", "attempt", ["bundle"])
    op.create_index("ix_attempt_environment", "attempt", ["environment"])
    op.add_column("job", sa.Column("against", sa.Text(), server_default="", nullable=False))
    op.add_column("job", sa.Column("metric", sa.Text(), server_default="", nullable=False))
    # In words: Alembic would make a constraint apart, which SQLite cannot add.
    op.execute(
        "ALTER TABLE measurement ADD COLUMN series_id INTEGER"
        " CONSTRAINT fk_measurement_series_id_series REFERENCES series (id)"
    )
    op.add_column(
        "measurement", sa.Column("measured_at", sa.DateTime(timezone=True), nullable=True)
    )
    op.add_column("measurement", sa.Column("roof_fraction", sa.Float(), nullable=True))
    op.add_column("measurement", sa.Column("flag", sa.Text(), server_default="", nullable=False))
    op.create_index(
        "ix_measurement_history",
        "measurement",
        ["series_id", "measured_at", "job_id", "seconds", "flag"],
    )
    op.add_column("run", sa.Column("track", sa.Text(), server_default="main", nullable=False))


def _compress_blobs() -> None:
    """SPIR-V was kept as it is: three times as large."""
    blob = sa.table("blob", sa.column("sha", sa.Text()), sa.column("data", sa.LargeBinary()))
    tx = op.get_bind()
    for sha in tx.execute(sa.select(blob.c.sha)).scalars().all():
        data = tx.execute(sa.select(blob.c.data).where(blob.c.sha == sha)).scalar_one()
        packed = zlib.compress(bytes(data), 1)
        tx.execute(sa.update(blob).where(blob.c.sha == sha).values(data=packed))
