"""How long jobs take on a device, learned from those it did last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from vkbench_db import models


@dataclass(frozen=True, kw_only=True)
class Recent:
    """Mean seconds of a device's recent attempts."""

    mean: float | None  # over all of them; None when it did none yet
    by_case: Mapping[tuple[str, str], float] = field(default_factory=dict)  # (case, mode)

    def of(self, case: str, mode: str) -> float | None:
        """The best guess there is for a case in a mode."""
        return self.by_case.get((case, mode), self.mean)


def recent_seconds(tx: Connection, device: str, most: int = 500) -> Recent:
    """What a device's last `most` settled jobs took: one look along an index."""
    job, attempt = models.Job, models.Attempt
    last = (
        select(job.id, job.case_id, job.mode, job.settled_token)
        .join(models.Device, models.Device.id == job.device_id)
        .where(models.Device.key == device, job.finished_at.is_not(None))
        .order_by(job.finished_at.desc())
        .limit(most)
        .subquery()
    )
    rows = tx.execute(
        select(models.KernelCase.name, last.c.mode, attempt.seconds)
        .join(models.KernelCase, models.KernelCase.id == last.c.case_id)
        .join(attempt, (attempt.job_id == last.c.id) & (attempt.token == last.c.settled_token))
    ).all()
    taken: dict[tuple[str, str], list[float]] = {}
    for name, mode, seconds in rows:
        taken.setdefault((name, mode), []).append(seconds)
    return Recent(
        mean=sum(row.seconds for row in rows) / len(rows) if rows else None,
        by_case={key: sum(values) / len(values) for key, values in taken.items()},
    )
