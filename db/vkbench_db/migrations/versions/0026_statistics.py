"""what drivers made of kernels, beside times: registers, bytes, joules"""

from __future__ import annotations

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

_VIEW = """
CREATE VIEW v_statistics AS
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
        job.variant AS variant,
        attempt.variant AS variant_run,
        attempt.kernel_sha AS kernel_sha,
        attempt.bundle AS bundle,
        job.run_id AS run,
        run.label AS run_label,
        run.track AS track,
        job.id AS job,
        statistic.name AS name,
        statistic.value AS value,
        statistic.unit AS unit,
        statistic.spread AS spread,
        statistic.note AS note,
        job.finished_at AS finished_at
    FROM statistic
    JOIN job ON job.id = statistic.job_id
    JOIN run ON run.id = job.run_id
    JOIN device ON device.id = job.device_id
    JOIN host ON host.id = device.host_id
    JOIN kernel_case ON kernel_case.id = job.case_id
    JOIN attempt ON attempt.job_id = statistic.job_id AND attempt.token = statistic.token
    LEFT JOIN environment ON environment.hash = attempt.environment
"""


def upgrade() -> None:
    op.execute(
        "CREATE TABLE statistic (job_id INTEGER NOT NULL, name TEXT NOT NULL, "
        "token INTEGER NOT NULL, value FLOAT, unit TEXT NOT NULL, spread FLOAT, "
        "note TEXT NOT NULL, CONSTRAINT pk_statistic PRIMARY KEY (job_id, name), "
        "CONSTRAINT fk_statistic_job_id_token_attempt FOREIGN KEY(job_id, token) "
        "REFERENCES attempt (job_id, token))"
    )
    op.execute(_VIEW)
