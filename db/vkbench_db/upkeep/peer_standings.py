"""Which comparisons with peers have been judged, and which falls no alert has told of yet.

`vkbench_detection.compare.peer_ratios` judges them.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, select, update

from vkbench.job import JobState, Mode
from vkbench_db import schema
from vkbench_db.rows import insert_missing


def unjudged(tx: Connection, most: int) -> list[int]:
    """Jobs that compared with a peer and are not judged, of the latest of each case and peer."""
    latest, standing = schema.latest.c, schema.peer_standing.c
    asked = (
        select(latest.job_id)
        .outerjoin(schema.peer_standing, standing.job_id == latest.job_id)
        .where(latest.mode == Mode.PEER, latest.state == JobState.PASSED, standing.job_id.is_(None))
        .order_by(latest.job_id)
        .limit(most)
    )
    return list(tx.execute(asked).scalars())


def note(tx: Connection, fallen: Mapping[int, bool], now: float) -> None:
    """Store of jobs whether their ratio fell; what is stored stays."""
    rows = [
        {"job_id": job, "has_fallen": has_fallen, "judged_at": now, "told_at": None}
        for job, has_fallen in fallen.items()
    ]
    insert_missing(tx, schema.peer_standing, rows)


def untold(tx: Connection, *, judged_since: float, measured_since: float) -> list[int]:
    """Comparisons whose ratio fell, and of which no alert has reached every channel."""
    standing, job = schema.peer_standing.c, schema.job.c
    asked = (
        select(standing.job_id)
        .join(schema.job, job.id == standing.job_id)
        .where(
            *(standing.has_fallen, standing.told_at.is_(None)),
            *(standing.judged_at >= judged_since, job.finished_at >= measured_since),
        )
        .order_by(standing.job_id)
    )
    return list(tx.execute(asked).scalars())


def note_told(tx: Connection, job: int, now: float) -> None:
    """Store that every channel has heard of a fall."""
    standing = schema.peer_standing
    tx.execute(update(standing).where(standing.c.job_id == job).values(told_at=now))
