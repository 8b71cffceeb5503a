"""Joins that many queries have: jobs and series with their names, and what settled a job."""

from __future__ import annotations

from vkbench_db.schema.change import series
from vkbench_db.schema.fleet import device, host
from vkbench_db.schema.work import attempt, job, kernel_case

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
