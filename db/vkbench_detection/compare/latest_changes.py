"""The latest timings of a device beside those of a reference, case by case.

Only what stands beside the latest results is read, by index: years of other results cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Select, select, true

from vkbench.errors import UsageError
from vkbench.job import Arm, JobState, Mode
from vkbench_db import schema
from vkbench_db.work.latest import is_ours
from vkbench_detection.compare.references import LatestBefore, Reference, WholeRun, ran_arm
from vkbench_detection.compare.result_sets import MOST_RESULTS, works_of_jobs
from vkbench_detection.compare.sides import Side

_Work = tuple[int, str]  # case, variant asked for


@dataclass(frozen=True, kw_only=True)
class LatestChange:
    """A latest timing, and the reference's of the same work."""

    kernel: str
    format: str
    case_name: str
    ratio: float | None  # new over old: above 1 is slower; None where a side is too noisy


@dataclass(frozen=True, kw_only=True)
class _Latest:
    work: _Work
    kernel: str
    format: str
    case_name: str
    job: int


def changes(tx: Connection, device: str, reference: Reference, metric: str) -> list[LatestChange]:
    """The latest timings of a device over those of a reference that passed.

    The reference's newest are pooled as a comparison pools them: those that ran what the newest
    ran. Timings that their series leave out count on neither side.
    """
    number = tx.execute(select(schema.device.c.id).where(schema.device.c.key == device)).scalar()
    if number is None:
        return []
    latest = _latest(tx, number)
    before = _before(tx, number, reference, {row.work for row in latest})
    new = _sides(tx, (row.job for row in latest if row.work in before), metric)
    old = _sides(tx, (job for jobs in before.values() for job in jobs), metric)
    return [
        LatestChange(
            kernel=row.kernel,
            format=row.format,
            case_name=row.case_name,
            ratio=_ratio(old[row.work], new[row.work]),
        )
        for row in latest
        if row.work in old and row.work in new
    ]


def _ratio(old: Side, new: Side) -> float | None:
    return None if old.is_too_noisy or new.is_too_noisy else new.value / old.value


def _sides(tx: Connection, jobs: Iterable[int], metric: str) -> dict[_Work, Side]:
    """What of these jobs was timed and counts, by piece of work."""
    by_key = works_of_jobs(tx, jobs, metrics=[metric])
    return {
        (case, variant): side
        for (_, case, _, variant), work in by_key.items()
        if (side := work.sides.get(metric)) and not side.flag
    }


def _latest(tx: Connection, device: int) -> list[_Latest]:
    latest, case = schema.latest.c, schema.kernel_case.c
    rows = tx.execute(
        select(
            *(latest.case_id, latest.variant, case.kernel, case.format),
            *(case.name, latest.job_id),
        )
        .join(schema.kernel_case, case.id == latest.case_id)
        .where(
            latest.device_id == device,
            latest.mode == Mode.PERFORMANCE,
            latest.state == JobState.PASSED,
            is_ours(),
        )
    )
    return [
        _Latest(work=(number, variant), kernel=kernel, format=format, case_name=name, job=job)
        for number, variant, kernel, format, name, job in rows
    ]


def _before(
    tx: Connection, device: int, reference: Reference, works: set[_Work]
) -> Mapping[_Work, Sequence[int]]:
    """The reference's newest jobs of each piece of work."""
    match reference.chosen:
        case LatestBefore(moment=moment):
            return _until(tx, device, moment)
        case WholeRun(number=run):
            return _of_runs(tx, device, [run], true(), works)
        case Arm() as arm:
            settled = ran_arm(tx, arm)
            return _of_runs(tx, device, _runs(tx, device, settled), settled, works)
    raise UsageError("latest results are compared with a run, a bundle, a driver or a day")


def _until(tx: Connection, device: int, moment: float) -> dict[_Work, Sequence[int]]:
    job, latest = schema.job.c, schema.latest.c
    newest = (
        select(job.id)
        .where(
            *(job.case_id == latest.case_id, job.device_id == latest.device_id),
            *(job.mode == latest.mode, job.variant == latest.variant),
            *(job.finished_at < moment, job.state == JobState.PASSED),
            job.finished_at.is_not(None),  # as an index has it
        )
        .order_by(job.finished_at.desc(), job.id.desc())
        .limit(1)
        .correlate(schema.latest)
        .scalar_subquery()
    )
    rows = tx.execute(
        select(latest.case_id, latest.variant, newest).where(
            latest.device_id == device, latest.mode == Mode.PERFORMANCE
        )
    )
    return {
        (case, variant): [newest_job]
        for case, variant, newest_job in rows
        if newest_job is not None
    }


def _runs(tx: Connection, device: int, settled: ColumnElement[bool]) -> Sequence[int]:
    """The newest runs whose first right result on a device is of a bundle or a driver."""
    job, run, attempt = schema.job.c, schema.run.c, schema.attempt.c
    first = (
        select(job.id)
        .where(job.device_id == device, job.state == JobState.PASSED, job.run_id == run.id)
        .order_by(job.id)
        .limit(1)
        .correlate(schema.run)
        .scalar_subquery()
    )
    query = (
        select(run.id)
        .select_from(schema.run)
        .join(schema.attempt, attempt.job_id == first)
        .where(settled, run.mode.in_((Mode.PERFORMANCE, Mode.BOTH)))
        .order_by(run.created_at.desc(), run.id.desc())
        .limit(MOST_RESULTS)
    )
    return tx.execute(query).scalars().all()


def _of_runs(
    tx: Connection,
    device: int,
    runs: Iterable[int],
    settled: ColumnElement[bool],
    works: set[_Work],
) -> dict[_Work, Sequence[int]]:
    """The newest jobs of each piece of work in runs, the newest run first."""
    by_work: dict[_Work, list[int]] = {}
    for run in runs:
        for case, variant, job in tx.execute(_jobs(device, run, settled)):
            jobs = by_work.setdefault((case, variant), [])
            if (case, variant) in works and len(jobs) < MOST_RESULTS:
                jobs.append(job)
    return {work: jobs for work, jobs in by_work.items() if jobs}


def _jobs(device: int, run: int, settled: ColumnElement[bool]) -> Select[int, str, int]:
    job = schema.job.c
    return (
        select(job.case_id, job.variant, job.id)
        .select_from(schema.job)
        .join(schema.attempt, schema.is_settling)
        .where(
            *(job.run_id == run, job.device_id == device, job.mode == Mode.PERFORMANCE),
            *(job.state == JobState.PASSED, settled),
        )
        .order_by(job.finished_at.desc(), job.id.desc())
    )
