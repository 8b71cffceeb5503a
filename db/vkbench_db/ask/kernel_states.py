"""How the latest results of each kernel ended, device by device."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from vkbench.job import Mode
from vkbench_db import schema
from vkbench_db.rows import fetch
from vkbench_db.work.latest import is_ours


@dataclass(frozen=True, kw_only=True)
class KernelState:
    """How many of the latest results of a kernel on a device ended so."""

    kernel: str
    device: str  # key
    state: str
    results: int


def kernel_states(tx: Connection, kernel: str = "") -> list[KernelState]:
    """Of one kernel, or of all."""
    latest, case, device = schema.latest.c, schema.kernel_case.c, schema.device.c
    asked = (
        select(case.kernel, device.key.label("device"), latest.state, func.count().label("results"))
        .select_from(schema.latest)
        .join(schema.kernel_case, case.id == latest.case_id)
        .join(schema.device, device.id == latest.device_id)
        .where(latest.mode.in_((Mode.CORRECTNESS, Mode.PERFORMANCE)), is_ours())
        .group_by(case.kernel, device.key, latest.state)
    )
    return fetch(tx, asked.where(case.kernel == kernel) if kernel else asked, KernelState)
