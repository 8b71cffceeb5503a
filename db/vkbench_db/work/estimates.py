"""How long jobs take on a device, estimated from its last jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from vkbench.job import CHECKS, Mode
from vkbench_db import schema


@dataclass(frozen=True, kw_only=True)
class Recent:
    """Mean seconds of a device's recent attempts."""

    by_case: Mapping[tuple[str, str], float] = field(default_factory=dict)  # (case, mode)
    check: float | None = None  # of all correctness checks; None when there was none

    def of(self, case: str, mode: str, planned: float) -> float:
        """The estimate for a case in a mode. Timings of other cases say nothing of one."""
        if (seconds := self.by_case.get((case, mode))) is not None:
            return seconds
        return self.check if self.check is not None and mode in CHECKS else planned


def recent_seconds(tx: Connection, device: str, most: int = 500) -> Recent:
    """The seconds that a device's last `most` settled jobs took; an index gives them in order."""
    job, attempt = schema.job.c, schema.attempt.c
    last = (
        select(job.id, job.case_id, job.mode, job.settled_token)
        .join(schema.device, schema.device.c.id == job.device_id)
        .where(schema.device.c.key == device, job.finished_at.is_not(None))
        .order_by(job.finished_at.desc())
        .limit(most)
        .subquery()
    )
    rows = tx.execute(
        select(schema.kernel_case.c.name, last.c.mode, attempt.seconds)
        .join(schema.kernel_case, schema.kernel_case.c.id == last.c.case_id)
        .join(
            schema.attempt, (attempt.job_id == last.c.id) & (attempt.token == last.c.settled_token)
        )
    ).all()
    taken: dict[tuple[str, str], list[float]] = {}
    for name, mode, seconds in rows:
        taken.setdefault((name, mode), []).append(seconds)
    checks = [row.seconds for row in rows if row.mode == Mode.CORRECTNESS]
    return Recent(
        by_case={key: sum(values) / len(values) for key, values in taken.items()},
        check=sum(checks) / len(checks) if checks else None,
    )
