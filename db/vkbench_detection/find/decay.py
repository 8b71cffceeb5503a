"""Slow decay: bundles that are each a little slower than the one before, below every threshold.

So may builds of a program be. The newest results of a series are held against those of the last
release and of the last baseline. Where they are slower than confirmed changes explain, pairs of
the newest bundle or build and that one measure it, once for a new kernel and once a week at most.
Pairs decide alone: between a release and now a device has had many days.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, pi, sqrt

from sqlalchemy import ColumnElement, Connection, select

from vkbench.errors import UsageError
from vkbench.job import Arm
from vkbench_db import schema
from vkbench_db.rows import fetch
from vkbench_db.work.builds import has_files
from vkbench_db.work.bundles import has_bundle
from vkbench_detection.changes.change_point import ChangePoint, Method
from vkbench_detection.changes.decisions import OF_CODE, Suspicion
from vkbench_detection.changes.states import UNDECIDED
from vkbench_detection.changes.transitions import suspect
from vkbench_detection.compare.references import LatestBefore, Reference, WholeRun, ran_arm
from vkbench_detection.confirm.fleet import watched_devices
from vkbench_detection.confirm.pairable import is_pairable
from vkbench_detection.find.levels import (
    begins_level,
    changes_of,
    first_jobs,
    level,
    of_one_level,
)
from vkbench_detection.regress.stages import UNSETTLED
from vkbench_detection.series.points import Origin, Point, origins, points
from vkbench_detection.series.profiles import device_sigmas
from vkbench_detection.statistics.screen import Direction

WEEK_SECONDS = 7 * 86_400.0
NEWEST, OLDEST = 5, 10  # results of now, and of the reference, at most
LEAST_CHANGE = log(1.015)  # what pairs confirm
SIGMAS = 2.0  # of both medians: pairs decide, so that a false suspicion costs four of them


@dataclass(frozen=True, kw_only=True)
class _Series:
    """A series on a device that a worker serves."""

    id: int
    sigma: float | None
    device: str  # key
    packaged: str  # SHA-256 of the packaged bundle there


def look(
    tx: Connection, series: Sequence[int], references: Sequence[Reference], now: float
) -> list[int]:
    """Suspect the series that have become slower little by little; return the new change points."""
    if not references:
        return []
    usual = device_sigmas(tx)
    suspicions = []
    for served in _list_served(tx, series, now):
        suspicion = _suspicion(tx, served, references, served.sigma or usual[served.device], now)
        suspicions += [suspicion] if suspicion else []
    return suspect(tx, suspicions, now)


def _list_served(tx: Connection, series: Sequence[int], now: float) -> list[_Series]:
    table, device = schema.series.c, schema.device.c
    query = (
        select(table.id, table.sigma, device.key.label("device"), device.bundle.label("packaged"))
        .join(schema.device, device.id == table.device_id)
        .where(
            table.id.in_(series),
            table.device_id.in_(watched_devices(tx, now)),
            is_pairable(),
        )
        .order_by(table.id)
    )
    return fetch(tx, query, _Series)


def _suspicion(
    tx: Connection, series: _Series, references: Sequence[Reference], sigma: float, now: float
) -> Suspicion | None:
    """The suspicion against the first reference that the newest results are slower than."""
    known = changes_of(tx, series.id)
    if any(_was_asked_lately(row, now) for row in known) or _is_being_mended(tx, series.id):
        return None
    first = first_jobs(known)
    new = of_one_level(points(tx, series.id, NEWEST), first)
    for reference in references:
        old = of_one_level(_points_of(tx, series.id, reference), first)
        if not new or not old or old[-1].measured_at >= new[0].measured_at:
            continue
        moments = origins(tx, [old[-1].job, new[-1].job])
        before, after = moments[old[-1].job], moments[new[-1].job]
        if not _can_be_paired(tx, series, before, after, known):
            continue
        change = level(new) - level(old)
        error = sigma * sqrt(pi / 2 * (1 / len(old) + 1 / len(new)))
        since = _since(tx, known, old[-1])
        others = sum(log(row.ratio or 1.0) for row in since if row.cause not in OF_CODE)
        shifts = sum(log(row.ratio or 1.0) for row in since)
        if min(change - others, change - shifts) < max(LEAST_CHANGE, SIGMAS * error):
            continue
        return Suspicion(
            series=series.id,
            method=Method.DECAY,
            direction=Direction.SLOWER,
            before_job=old[-1].job,
            after_job=new[-1].job,
            ratio=exp(change - others),
            note=f"{exp(change):.4f} of {reference.name}, little by little",
        )
    return None


def _was_asked_lately(row: ChangePoint, now: float) -> bool:
    is_open = row.state in UNDECIDED and row.direction == Direction.SLOWER
    return is_open or (row.method == Method.DECAY and row.found_at > now - WEEK_SECONDS)


def _is_being_mended(tx: Connection, series: int) -> bool:
    """Whether people know that a kernel of it is slower."""
    change, member, table = schema.change_point.c, schema.regression_member.c, schema.regression.c
    query = (
        select(table.id)
        .join(schema.regression_member, member.regression_id == table.id)
        .join(schema.change_point, change.id == member.change_point_id)
        .where(
            *(change.series_id == series, change.cause.in_(OF_CODE)),
            *(table.direction == Direction.SLOWER, table.state.in_(UNSETTLED)),
        )
    )
    return tx.execute(query.limit(1)).first() is not None


def _can_be_paired(
    tx: Connection, series: _Series, before: Origin, after: Origin, known: Sequence[ChangePoint]
) -> bool:
    """Whether both kernels differ, were not paired so before, and are kept."""
    paired = {(row.before_kernel, row.after_kernel) for row in known if row.method == Method.DECAY}
    is_new = before.kernel != after.kernel and (before.kernel, after.kernel) not in paired
    return is_new and all(
        sha and (sha == series.packaged or has_bundle(tx, sha) or has_files(tx, sha))
        for sha in (before.bundle, after.bundle)
    )


def _since(tx: Connection, known: Sequence[ChangePoint], start: Point) -> list[ChangePoint]:
    """The confirmed changes of neighbouring results after a moment."""
    rows = [row for row in known if begins_level(row)]
    job = schema.job.c
    later = set(
        tx.execute(
            select(job.id).where(
                job.id.in_([row.after_job for row in rows]), job.finished_at > start.measured_at
            )
        ).scalars()
    )
    return [row for row in rows if row.after_job in later]


def _points_of(tx: Connection, series: int, reference: Reference) -> list[Point]:
    """The last results of a series that a baseline names, the oldest first."""
    timing, job = schema.measurement.c, schema.job.c
    rows = tx.execute(
        select(timing.job_id, timing.measured_at, timing.seconds)
        .join(schema.job, job.id == timing.job_id)
        .join(schema.attempt, schema.is_settling)
        .where(timing.series_id == series, timing.flag == "", _is_of(tx, reference))
        .order_by(timing.measured_at.desc(), timing.job_id.desc())
        .limit(OLDEST)
    ).all()
    return [Point(row.job_id, row.measured_at or 0.0, row.seconds) for row in reversed(rows)]


def _is_of(tx: Connection, reference: Reference) -> ColumnElement[bool]:
    match reference.chosen:
        case WholeRun(number=run):
            return schema.job.c.run_id == run
        case Arm() as arm:
            return ran_arm(tx, arm)
        case LatestBefore(moment=moment):
            return schema.measurement.c.measured_at < moment
    raise UsageError(f"no series is compared with {reference.name}")
