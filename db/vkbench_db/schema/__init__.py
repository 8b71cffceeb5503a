"""The tables and public views, each declared once: `schema.job.c.state` is a typed column.

    work    host ── device ──┐                       environment (by hash)
                             ├── job ── attempt      a dispatch that returned a result
            run ─────────────┤    ├── verdict        of the attempt that settled the job
            kernel_case ─────┘    ├── measurement    one for each metric and side of that attempt
                                  └── statistic      what the driver made of the kernel, no time
            bundle ── bundle_blob ── blob            by SHA-256
            build                                    a version of a program, by SHA-256
            latest                                   the newest job of each piece of work
            run ── accuracy                          what formats and models lost

    change  measurement ── series ── change_point ── regression_member ── regression
                                      └── confirmation (a run of pairs)

    upkeep  device ── calibration, canary, tuned     regression ── bisection ── bisection_step
            schedule ── schedule_slot ── run                    └── alert_delivery, forge_issue
            scheduler              job ── peer_standing  token     refused

A series is what stays the same (device, case, code path, metric, side, environment class, track)
while driver and kernels change. Change points and regressions are never deleted: each change of
their state has a row of its own in a table of events.

A job has at most one verdict and one measurement of each metric and side. Their primary keys make
the first result that settles a job win, even where code does not.

Column types are portable. Each index stands beside the query that needs it. A view (`v_results`,
`v_latest`, `v_series`, `v_regressions`, `v_accuracy`, `v_statistics`) is declared in the module of
its tables; a migration creates it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement

from vkbench_db.schema.accuracy import accuracy, v_accuracy
from vkbench_db.schema.change import (
    change_point,
    change_point_event,
    confirmation,
    fresh,
    regression,
    regression_event,
    regression_member,
    series,
    v_regressions,
    v_series,
)
from vkbench_db.schema.fleet import device, environment, host
from vkbench_db.schema.metadata import TABLES, VIEWS, Columns, Json
from vkbench_db.schema.statistic import statistic, v_statistics
from vkbench_db.schema.upkeep import (
    alert_delivery,
    baseline,
    bisection,
    bisection_step,
    calibration,
    canary,
    forge_issue,
    peer_standing,
    refused,
    schedule,
    schedule_slot,
    scheduler,
    token,
    tuned,
)
from vkbench_db.schema.work import (
    ResultRow,
    attempt,
    blob,
    build,
    bundle,
    bundle_blob,
    job,
    kernel_case,
    latest,
    measurement,
    run,
    v_latest,
    v_results,
    verdict,
)

# What rows of queries call a case, its device and its host.
NAMES: Mapping[str, ColumnElement[Any]] = {
    "host": host.c.name,
    "device": device.c.key,
    "device_name": device.c.name,
    "case_name": kernel_case.c.name,
    "kernel": kernel_case.c.kernel,
    "format": kernel_case.c.format,
}
# Joins that many queries have: jobs and series with their names, and what settled a job.
named_jobs = (
    job.join(device, device.c.id == job.c.device_id)
    .join(host, host.c.id == device.c.host_id)
    .join(kernel_case, kernel_case.c.id == job.c.case_id)
)
named_series = (
    series.join(device, device.c.id == series.c.device_id)
    .join(host, host.c.id == device.c.host_id)
    .join(kernel_case, kernel_case.c.id == series.c.case_id)
)
is_settling = (attempt.c.job_id == job.c.id) & (attempt.c.token == job.c.settled_token)
