"""Suspicions that nothing will decide any more: they become ambiguous, for people to look at.

Pairs decide what waits on a device that a worker serves. Elsewhere the pass over the history does,
if enough results come, and as long as the suspicion is among those that it looks at.
"""

from __future__ import annotations

from sqlalchemy import Connection, func, literal, or_, select

from vkbench_db import schema
from vkbench_db.schema.metadata import Moment
from vkbench_detection.changes.decisions import Conclusion, Decision
from vkbench_detection.changes.states import ChangeState
from vkbench_detection.confirm.fleet import GONE_SECONDS, watched_devices
from vkbench_detection.confirm.pairable import is_pairable
from vkbench_detection.statistics.segments import LAST


def undecidable(tx: Connection, now: float) -> list[Decision]:
    """Doubt the suspicions that neither pairs nor the history will decide."""
    change, series, job = schema.change_point.c, schema.series.c, schema.job.c
    timing = schema.measurement.c
    later = (timing.series_id == change.series_id) & (timing.flag == "")
    newest = select(func.max(timing.measured_at)).where(later)
    count = select(func.count()).where(later, timing.measured_at > job.finished_at)
    rows = tx.execute(
        select(
            change.id,
            change.found_at,
            func.coalesce(newest.scalar_subquery(), literal(0.0, Moment)).label("newest_at"),
            count.scalar_subquery().label("results"),
        )
        .join(schema.series, series.id == change.series_id)
        .join(schema.job, job.id == change.after_job)
        .where(
            change.state == ChangeState.SUSPECTED,
            or_(series.device_id.not_in(watched_devices(tx, now)), ~is_pairable()),
        )
    )
    endings = []
    for row in rows:
        if row.results >= LAST:
            endings.append(_doubt(row.id, f"{row.results} results came since then: it is too old"))
        elif max(row.found_at, row.newest_at) <= now - GONE_SECONDS:
            days = round(GONE_SECONDS / 86_400)
            text = f"for {days} days no worker has measured it again, and no more results came"
            endings.append(_doubt(row.id, text))
    return endings


def _doubt(change: int, note: str) -> Decision:
    return Decision(change=change, conclusion=Conclusion(state=ChangeState.AMBIGUOUS, note=note))
