"""timings say whose they are: ours, another program's, or an arm's; series too"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from vkbench_db.migrations.views_0003 import REGRESSIONS, SERIES

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

# As before, and the side at the end.
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
        attempt.memory_bytes AS memory_bytes,
        measurement.side AS side
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
_SERIES = SERIES.replace("AS smallest_effect", "AS smallest_effect, series.side AS side")
_PAIR_METRIC = "(SELECT COALESCE(NULLIF(job.metric, ''), 'hot') FROM job WHERE job.id = job_id)"
_OF_PEERS = "job_id IN (SELECT id FROM job WHERE mode = 'peer')"
_IMPORTED = """job_id IN (
    SELECT job.id FROM job JOIN run ON run.id = job.run_id WHERE run.kind = 'import'
)"""


def upgrade() -> None:
    # SQLite renames no table that a view reads
    for name in ("v_latest", "v_results", "v_series", "v_regressions"):
        op.execute(f"DROP VIEW {name}")
    with op.batch_alter_table("measurement") as batch:
        batch.add_column(_side())
        batch.drop_constraint("pk_measurement", type_="primary")
        batch.create_primary_key("pk_measurement", ["job_id", "metric", "side"])
    with op.batch_alter_table("series") as batch:
        batch.add_column(_side())
        batch.drop_constraint("uq_series_identity", type_="unique")
        identity = ["case_id", "device_id", "variant", "metric", "side"]
        batch.create_unique_constraint(
            "uq_series_identity", [*identity, "environment_class", "track"]
        )
    # Metrics were sides: of pairs both, of our kernel beside a peer whose own was hot.
    op.execute(
        f"UPDATE measurement SET side = metric, metric = {_PAIR_METRIC}"
        " WHERE metric IN ('old', 'new')"
    )
    op.execute(f"UPDATE measurement SET side = 'theirs' WHERE metric = 'hot' AND {_OF_PEERS}")
    op.execute(f"UPDATE measurement SET side = 'theirs' WHERE {_IMPORTED}")
    op.execute(
        "UPDATE series SET side = 'theirs'"
        " WHERE id IN (SELECT series_id FROM measurement WHERE side = 'theirs')"
    )
    for table in ("measurement", "series"):
        op.execute(f"UPDATE {table} SET metric = 'hot' WHERE metric = 'ours'")
    op.execute(f"CREATE VIEW v_results AS {_RESULTS}")
    op.execute(f"CREATE VIEW v_latest AS {_LATEST}")
    op.execute(f"CREATE VIEW v_series AS {_SERIES}")
    op.execute(f"CREATE VIEW v_regressions AS {REGRESSIONS}")


def _side() -> sa.Column[str]:
    return sa.Column("side", sa.Text(), server_default="ours", nullable=False)
