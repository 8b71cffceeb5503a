"""The latest timings of a device beside those of a reference, case by case.

Only what stands beside the latest results is read, by index: years of other results cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Select, select, true

from vkbench.errors import UsageError
from vkbench.job import JobState, Mode
from vkbench_db import schema
from vkbench_db.batches import batches
from vkbench_db.work.latest import is_ours
from vkbench_detection.compare.references import Reference, ReferenceKind

MOST_RUNS = 12  # of a bundle or a driver, the newest, in which its results are looked for

_Work = tuple[int, str]  # case, variant asked for


@dataclass(frozen=True, kw_only=True)
class LatestChange:
    """A latest timing, and the reference's of the same work."""

    kernel: str
    format: str
    case_name: str
    ratio: float  # new over old: above 1 is slower


@dataclass(frozen=True, kw_only=True)
class _Latest:
    work: _Work
    kernel: str
    format: str
    case_name: str
    job: int


def changes(tx: Connection, device: str, reference: Reference, metric: str) -> list[LatestChange]:
    """The latest timings of a device over the newest of a reference that passed.

    Timings that their series leave out count on neither side.
    """
    number = tx.execute(select(schema.device.c.id).where(schema.device.c.key == device)).scalar()
    if number is None:
        return []
    latest = _latest(tx, number)
    before = _before(tx, number, reference, {each.work for each in latest})
    both = [(each, before[each.work]) for each in latest if each.work in before]
    seconds = _seconds(tx, {job for each, old in both for job in (each.job, old)}, metric)
    return [
        LatestChange(
            kernel=each.kernel,
            format=each.format,
            case_name=each.case_name,
            ratio=seconds[each.job] / seconds[old],
        )
        for each, old in both
        if each.job in seconds and old in seconds
    ]


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
    tx: Connection, device: int, reference: Reference, wanted: set[_Work]
) -> Mapping[_Work, int]:
    """The reference's newest job of each piece of work."""
    match reference.kind:
        case ReferenceKind.DATE:
            return _until(tx, device, reference.until)
        case ReferenceKind.RUN:
            return _of_runs(tx, device, [reference.run], true(), wanted)
        case ReferenceKind.BUNDLE:
            settled = schema.attempt.c.bundle == reference.bundle
        case ReferenceKind.DRIVER:
            settled = schema.attempt.c.environment.in_(reference.environments)
        case _:
            raise UsageError("latest results are compared with a run, a bundle, a driver or a day")
    return _of_runs(tx, device, _runs(tx, device, settled), settled, wanted)


def _until(tx: Connection, device: int, moment: float) -> dict[_Work, int]:
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
    return {(case, variant): found for case, variant, found in rows if found is not None}


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
    asked = (
        select(run.id)
        .select_from(schema.run)
        .join(schema.attempt, attempt.job_id == first)
        .where(settled, run.mode.in_((Mode.PERFORMANCE, Mode.BOTH)))
        .order_by(run.created_at.desc(), run.id.desc())
        .limit(MOST_RUNS)
    )
    return tx.execute(asked).scalars().all()


def _of_runs(
    tx: Connection,
    device: int,
    runs: Iterable[int],
    settled: ColumnElement[bool],
    wanted: set[_Work],
) -> dict[_Work, int]:
    """The newest job of each piece of work in runs, the newest run first."""
    found: dict[_Work, int] = {}
    for run in runs:
        rows = tx.execute(_jobs(device, run, settled))
        of_run = {(case, variant): job for case, variant, job in rows}
        found = {**{work: job for work, job in of_run.items() if work in wanted}, **found}
        if len(found) == len(wanted):
            break
    return found


def _jobs(device: int, run: int, settled: ColumnElement[bool]) -> Select[int, str, int]:
    job, attempt = schema.job.c, schema.attempt.c
    return (
        select(job.case_id, job.variant, job.id)
        .select_from(schema.job)
        .join(schema.attempt, (attempt.job_id == job.id) & (attempt.token == job.settled_token))
        .where(
            *(job.run_id == run, job.device_id == device, job.mode == Mode.PERFORMANCE),
            *(job.state == JobState.PASSED, settled),
        )
        .order_by(job.finished_at, job.id)
    )


def _seconds(tx: Connection, jobs: set[int], metric: str) -> dict[int, float]:
    timing = schema.measurement.c
    found: dict[int, float] = {}
    for page in batches(sorted(jobs)):
        asked = select(timing.job_id, timing.seconds).where(
            timing.job_id.in_(page), timing.metric == metric, timing.flag == "", timing.seconds > 0
        )
        found |= dict(tx.execute(asked).all())
    return found
