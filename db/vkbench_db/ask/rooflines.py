"""The latest timings with their bytes and operations: what a roofline is drawn from."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select

from vkbench.job import JobState, Mode
from vkbench_db import schema
from vkbench_db.ask.timings import is_our_time
from vkbench_db.rows import fetch


@dataclass(frozen=True, kw_only=True)
class RooflinePoint:
    """A latest timing that passed."""

    device: str  # key
    kernel: str
    format: str
    case_name: str
    variant: str  # code path that ran
    seconds: float
    bytes_moved: int
    flops: int
    roof_fraction: float | None
    path_fraction: float | None
    series: int | None
    job: int


def roofline_points(
    tx: Connection, *, device: str = "", kernel: str = "", metric: str = "hot"
) -> list[RooflinePoint]:
    """The latest timings of a device, or of a kernel on all devices, by case and variant."""
    latest, case, timing = schema.latest.c, schema.kernel_case.c, schema.measurement.c
    attempt = schema.attempt.c
    where = [case.kernel == kernel] if kernel else []
    if device:
        key = schema.device.c.key == device
        where.append(latest.device_id.in_(select(schema.device.c.id).where(key)))
    asked = (
        select(
            schema.device.c.key.label("device"),
            *(case.kernel, case.format, case.name.label("case_name"), attempt.variant),
            *(timing.seconds, timing.bytes_moved, timing.flops),
            *(timing.roof_fraction, timing.path_fraction),
            *(timing.series_id.label("series"), latest.job_id.label("job")),
        )
        .select_from(schema.latest)
        .join(schema.kernel_case, case.id == latest.case_id)
        .join(schema.device, schema.device.c.id == latest.device_id)
        .join(schema.measurement, is_our_time(latest.job_id, metric))
        .join(schema.attempt, (attempt.job_id == timing.job_id) & (attempt.token == timing.token))
        .where(
            *where,
            latest.mode == Mode.PERFORMANCE,
            latest.state == JobState.PASSED,
            timing.seconds > 0,
        )
        .order_by(case.name, attempt.variant, latest.job_id)
    )
    return fetch(tx, asked, RooflinePoint)
