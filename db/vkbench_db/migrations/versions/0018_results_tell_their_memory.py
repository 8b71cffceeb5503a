"""the most device memory that whole models took, as a column of results"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

# As before, and the memory at the end.
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
        attempt.settings AS settings,
        attempt.memory_bytes AS memory_bytes
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
_LATEST = "SELECT v_results.* FROM latest JOIN v_results ON v_results.job = latest.job_id"
_TOLD = {
    "sqlite": "json_extract(telemetry, '$.memory_bytes')",
    "postgresql": "CAST(telemetry ->> 'memory_bytes' AS double precision)",
}


def upgrade() -> None:
    op.add_column("attempt", sa.Column("memory_bytes", sa.Float(), nullable=True))
    for name in ("v_latest", "v_results"):
        op.execute(f"DROP VIEW {name}")
    op.execute(f"CREATE VIEW v_results AS {_RESULTS}")
    op.execute(f"CREATE VIEW v_latest AS {_LATEST}")
    # Earlier versions had it in the telemetry alone.
    told = _TOLD[op.get_bind().dialect.name]
    op.execute(
        f"UPDATE attempt SET memory_bytes = {told}"
        " WHERE CAST(telemetry AS text) LIKE '%\"memory_bytes\"%'"
    )
