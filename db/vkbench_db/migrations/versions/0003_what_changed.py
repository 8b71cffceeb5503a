"""series, change points, regressions, and the columns that name them"""

from __future__ import annotations

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
        "fresh",
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_fresh_job_id_job"),
        sa.PrimaryKeyConstraint("job_id", name="pk_fresh"),
    )
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
