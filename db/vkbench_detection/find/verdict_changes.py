"""Results that became wrong and cases that began to fail: certain without a second measurement.

The outputs of a wrong result were compared, and a failed job was tried several times. Either is a
change if the job before it was right, in the chain of jobs of one case, device, mode and asked-for
code path. `failures` decides whether the case is to blame for a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, Select, and_, or_, select

from vkbench.job import JobState, Mode
from vkbench.result import Side
from vkbench_db import schema
from vkbench_db.rows import fetch, select_record
from vkbench_detection.changes.change_point import ChangePoint, Method
from vkbench_detection.changes.decisions import FAILED, WRONG, Conclusion, Suspicion, cause_of
from vkbench_detection.changes.questions import is_known
from vkbench_detection.changes.states import ChangeState
from vkbench_detection.changes.transitions import suspect
from vkbench_detection.find.failures import Failure, Try, describe_tries, is_to_blame, tries
from vkbench_detection.series.points import VERDICT, Identity, Origin, origins, series_ids


@dataclass(frozen=True, kw_only=True)
class Link:
    """A job, and what the chain of jobs that it belongs to has in common."""

    id: int
    case_id: int
    device_id: int
    mode: str
    variant: str
    state: str
    finished_at: float
    reason: str
    track: str
    limit_seconds: float


def record_wrong_jobs(tx: Connection, jobs: Sequence[int], now: float) -> list[int]:
    """Store a confirmed change for each of the jobs that is wrong after a right one.

    Return the ids of new ones. A job that comes late finds the change that is stored already.
    """
    suspicions = []
    for row in _find_wrong_links(tx, jobs):
        before = tx.execute(chain(row, before=True).limit(1)).first()
        if before is None or before.state != JobState.PASSED:
            continue
        identity = _identity(row.device_id, row.case_id, row.variant, row.track)
        series = series_ids(tx, [identity])[identity]
        if not is_known(tx, series, before.id, WRONG):
            suspicions.append(_wrong_change(series, before.id, row.id, row.reason))
    return suspect(tx, _conclude_suspicions(tx, suspicions), now)


def record_wrong_pairs(tx: Connection, change: ChangePoint, run: int, now: float) -> list[int]:
    """Store a confirmed change for a run of pairs whose new outputs were wrong."""
    job, series = schema.job.c, schema.series.c
    first = tx.execute(
        select(job.id, job.reason)
        .where(job.run_id == run, job.state == JobState.WRONG)
        .order_by(job.id)
        .limit(1)
    ).one()
    query = select(series.device_id, series.case_id, series.variant, series.track)
    identity = _identity(*tx.execute(query.where(series.id == change.series_id)).one())
    verdicts = series_ids(tx, [identity])[identity]
    if is_known(tx, verdicts, change.before_job, WRONG):
        return []
    suspicions = [_wrong_change(verdicts, change.before_job, first.id, first.reason)]
    return suspect(tx, _conclude_suspicions(tx, suspicions), now)


def record_failed_jobs(tx: Connection, jobs: Sequence[int], now: float) -> list[int]:
    """Store a confirmed change for each of the jobs that fails by its case, after a right one."""
    tried = tries(tx, jobs)
    suspicions: dict[tuple[int, str, int], Suspicion] = {}
    for link in links(tx, jobs):
        failure = Failure(
            job=link.id,
            device_id=link.device_id,
            case_id=link.case_id,
            finished_at=link.finished_at,
            tries=tried[link.id],
        )
        if not link.track or link.mode == Mode.PEER or not failure.is_of_case:
            continue
        before = tx.execute(chain(link, before=True).limit(1)).first()
        if before is None or before.state != JobState.PASSED:
            continue
        if failure.has_timed_out and link.limit_seconds < before.limit_seconds:
            continue  # it might have passed in the time that it had before
        identity = _identity(link.device_id, link.case_id, link.variant, link.track)
        series = series_ids(tx, [identity])[identity]
        stretch = (series, link.mode, before.id)
        if stretch in suspicions or _has_failed(tx, series, link, before.id):
            continue
        if is_to_blame(tx, failure):
            suspicions[stretch] = _failed_change(tx, series, before.id, failure, link.reason)
    return suspect(tx, list(suspicions.values()), now)


def chain(
    link: Link, *, before: bool, beside: tuple[float, int] | None = None
) -> Select[int, str, float | None, float]:
    """Select right and wrong jobs of a job's chain, before it or after it, the nearest first.

    With `beside`, select those before or after another job instead, which may be of another chain:
    the moment at which that job ended, and its number.
    """
    job, run = schema.job.c, schema.run.c
    moment, number = beside or (link.finished_at, link.id)
    place = or_(
        job.finished_at < moment if before else job.finished_at > moment,
        and_(job.finished_at == moment, job.id < number if before else job.id > number),
    )
    order = (job.finished_at, job.id)
    return (
        select(job.id, job.state, job.finished_at, job.limit_seconds)
        .join(schema.run, run.id == job.run_id)
        .where(
            *(job.case_id == link.case_id, job.device_id == link.device_id),
            *(job.mode == link.mode, job.variant == link.variant),
            *(run.track == link.track, job.state.in_((JobState.PASSED, JobState.WRONG))),
            place,
        )
        .order_by(*(column.desc() if before else column for column in order))
    )


def links(tx: Connection, jobs: Sequence[int]) -> list[Link]:
    """What `chain` needs to know of each of these jobs."""
    job, run = schema.job.c, schema.run.c
    query = (
        select_record(Link, schema.job, schema.run)
        .join(schema.run, run.id == job.run_id)
        .where(job.id.in_(jobs))
        .order_by(job.finished_at, job.id)
    )
    return fetch(tx, query, Link)


def _find_wrong_links(tx: Connection, jobs: Sequence[int]) -> list[Link]:
    return [row for row in links(tx, jobs) if row.state == JobState.WRONG]


def _identity(device: int, case: int, variant: str, track: str) -> Identity:
    return Identity(
        device_id=device,
        case_id=case,
        variant=variant,
        metric=VERDICT,
        side=Side.OURS,
        environment_class="",  # right and wrong do not depend on clocks
        track=track,
    )


def _has_failed(tx: Connection, series: int, link: Link, before: int) -> bool:
    """Whether a job of the chain, between the last right one and this one, is a change already."""
    change, job, right = schema.change_point.c, schema.job.c, schema.job.alias("right_one")
    query = (
        select(change.id)
        .join(schema.job, job.id == change.after_job)
        .join(right, right.c.id == before)
        .where(
            *(change.series_id == series, change.direction == FAILED, job.mode == link.mode),
            *(job.finished_at >= right.c.finished_at, job.finished_at <= link.finished_at),
        )
    )
    return tx.execute(query.limit(1)).first() is not None


def _failed_change(
    tx: Connection, series: int, before: int, failure: Failure, reason: str
) -> Suspicion:
    good = origins(tx, [before])[before]
    bad = _origin(tx, good, failure.tries[-1])
    return Suspicion(
        series=series,
        method=Method.VERDICT,
        direction=FAILED,
        before_job=before,
        after_job=failure.job,
        note=reason,
        after=bad,
        conclusion=Conclusion(
            state=ChangeState.CONFIRMED,
            note=describe_tries(failure.tries, reason),
            cause=cause_of(good, bad),
        ),
    )


def _origin(tx: Connection, good: Origin, bad: Try) -> Origin:
    """What a job ran that failed: it cannot tell which kernel, but its bundle names its kernels."""
    bundle = schema.bundle.c
    has_kernel = select(bundle.sha).where(
        bundle.sha == bad.bundle, bundle.manifest.contains(good.kernel, autoescape=True)
    )
    is_same = bad.bundle in ("", good.bundle) or tx.execute(has_kernel).first() is not None
    other = bad.bundle if good.is_build else ""  # a build is its own kernel
    return Origin(
        kernel=good.kernel if is_same else other,
        bundle=bad.bundle or good.bundle,
        environment=bad.environment or good.environment,
    )


def _wrong_change(series: int, before: int, after: int, note: str) -> Suspicion:
    return Suspicion(
        series=series,
        method=Method.VERDICT,
        direction=WRONG,
        before_job=before,
        after_job=after,
        note=note,
    )


def _conclude_suspicions(tx: Connection, suspicions: Sequence[Suspicion]) -> list[Suspicion]:
    known = origins(
        tx, [job for change in suspicions for job in (change.before_job, change.after_job)]
    )
    return [
        replace(
            change,
            conclusion=Conclusion(
                state=ChangeState.CONFIRMED,
                note="its outputs were compared with the reference",
                cause=cause_of(known[change.before_job], known[change.after_job]),
            ),
        )
        for change in suspicions
    ]
