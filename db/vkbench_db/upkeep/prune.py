"""Removes what is large and old: samples of timings, and bundles that nothing uses any more.

Summaries stay: every result, verdict, timing, series and regression, and the names of bundles. What
a baseline, a schedule, a change that is not settled, a bisection or an unfinished job needs stays
whole. Each step is a transaction of bounded size, so that services work on beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Select,
    delete,
    exists,
    func,
    or_,
    select,
    union,
    update,
)

from vkbench.device import DRIVER_SHA, ICD_LIBRARY
from vkbench.job import UNFINISHED, ArmKind
from vkbench_db import schema
from vkbench_db.ask.driver_names import find_environments
from vkbench_db.batches import batches
from vkbench_db.database import Database
from vkbench_db.upkeep.bisections import RUNNING

STEP_JOBS = 1000
OVER = ("verified", "closed")  # stages of a regression that needs no more work
DISMISSED = "dismissed"  # state of a change point that was none
_ARMS = ("bundle", "build")  # kinds of baselines that are a hash of files


@dataclass(frozen=True, kw_only=True)
class Removed:
    """How much was removed, or would be."""

    items: int
    bytes: int


def prune_samples(database: Database, before: float, *, is_trial: bool = False) -> Removed:
    """Remove the samples of timings that are older than a moment; medians and bounds stay."""
    with database.reading() as tx:
        kept = _needed_runs(tx) | set(tx.execute(_pinned_runs()).scalars())
    items = size = after = 0
    while True:
        with database.reading() if is_trial else database.transaction() as tx:
            jobs, last = _old_samples(tx, before, after, kept)
            if not is_trial and jobs:
                timing = schema.measurement
                old = timing.c.job_id.in_({job for job, _ in jobs})
                tx.execute(update(timing).where(old).values(samples=b""))
        items += len(jobs)
        size += sum(length for _, length in jobs)
        if last is None:
            return Removed(items=items, bytes=size)
        after = last
        if not is_trial:
            database.let_others_in()


def _old_samples(
    tx: Connection, before: float, after: int, kept: set[int]
) -> tuple[list[tuple[int, int]], int | None]:
    """(job, bytes) of some timings with old samples, and where to go on; None at the end."""
    job, timing = schema.job.c, schema.measurement.c
    some = (
        select(job.id, job.run_id, job.finished_at)
        .where(job.id > after)
        .order_by(job.id)
        .limit(STEP_JOBS)
    )
    jobs = tx.execute(some).all()
    old = [
        row.id
        for row in jobs
        if row.run_id not in kept and row.finished_at is not None and row.finished_at < before
    ]
    length = func.length(timing.samples)
    rows = tx.execute(select(timing.job_id, length).where(timing.job_id.in_(old), length > 0))
    return [(row[0], row[1]) for row in rows], jobs[-1].id if jobs else None


def prune_bundles(database: Database, before: float, *, is_trial: bool = False) -> Removed:
    """Remove the code of bundles that were stored and last ran before a moment."""
    with database.reading() as tx:
        old = _old_bundles(tx, before)
        size = _own_bytes(tx, old)
    for sha in [] if is_trial else old:
        with database.transaction() as tx:
            if sha not in _old_bundles(tx, before):  # it is needed since
                continue
            link, blob = schema.bundle_blob, schema.blob
            blobs = list(tx.execute(select(link.c.blob).where(link.c.bundle == sha)).scalars())
            tx.execute(delete(link).where(link.c.bundle == sha))
            for own in blobs:
                shared = exists().where(link.c.blob == own)
                tx.execute(delete(blob).where(blob.c.sha == own, ~shared))
        database.let_others_in()
    return Removed(items=len(old), bytes=size)


def _old_bundles(tx: Connection, before: float) -> list[str]:
    bundle, attempt, link = schema.bundle.c, schema.attempt.c, schema.bundle_blob.c
    ran = exists().where(attempt.bundle == bundle.sha, attempt.recorded_at >= before)
    has_code = exists().where(link.bundle == bundle.sha)
    query = select(bundle.sha).where(bundle.created_at < before, has_code, ~ran)
    needed = _needed_bundles(tx)
    old = tx.execute(query.order_by(bundle.created_at)).scalars()
    return [sha for sha in old if sha not in needed]


def _own_bytes(tx: Connection, bundles: Sequence[str]) -> int:
    """The bytes of blobs that no other bundle has."""
    link, blob = schema.bundle_blob.c, schema.blob.c
    others = select(link.blob).where(link.bundle.not_in(bundles))
    own = select(link.blob).where(link.bundle.in_(bundles), link.blob.not_in(others))
    total = select(func.sum(func.length(blob.data))).where(blob.sha.in_(own))
    return int(tx.execute(total).scalar() or 0)


def _needed_bundles(tx: Connection) -> set[str]:
    job, baseline, bisection = schema.job.c, schema.baseline.c, schema.bisection.c
    attempt = schema.attempt.c
    devices = select(schema.device.c.id)  # for the index, which begins with the device
    waiting = (job.device_id.in_(devices), job.state.in_(UNFINISHED))
    change = schema.change_point.c
    query = union(
        select(job.bundle).where(*waiting),
        select(job.against).where(*waiting),
        select(baseline.value).where(baseline.kind.in_(_ARMS)),
        select(attempt.bundle)
        .join(schema.job, job.id == attempt.job_id)
        .join(schema.run, schema.run.c.id == job.run_id)
        .join(schema.baseline, baseline.value == schema.run.c.uuid),
        select(change.before_bundle).where(_is_unsettled()),
        select(change.after_bundle).where(_is_unsettled()),
    )
    needed = set(tx.execute(query).scalars())
    for selection in tx.execute(select(schema.schedule.c.selection)).scalars():
        needed.add(selection.get("bundle", ""))
    running = select(bisection.bundles).where(bisection.state == RUNNING)
    for bundles in tx.execute(running).scalars():
        needed |= _texts(bundles)
    return needed


def needed_arms(tx: Connection, shas: Sequence[str], before: float) -> set[str]:
    """The bundles and builds that are needed, and those of `shas` that ran since a moment."""
    attempt, job = schema.attempt.c, schema.job.c
    is_new = attempt.recorded_at >= before
    ran = union(
        select(attempt.bundle).where(attempt.bundle.in_(shas), is_new),
        select(job.against)
        .join(schema.attempt, attempt.job_id == job.id)
        .where(job.against.in_(shas), is_new),
    )
    return _needed_bundles(tx) | set(tx.execute(ran).scalars())


def needed_drivers(tx: Connection, before: float) -> set[str]:
    """What means the drivers that are needed, or ran since a moment.

    It is hashes and names of theirs, or the first digits of hashes: of their files, or of the
    library of a host's own driver. `*` is among them where a schedule runs through all drivers.
    """
    job = schema.job.c
    devices = select(schema.device.c.id)  # for the index, which begins with the device
    waiting = select(job.driver).where(job.device_id.in_(devices), job.state.in_(UNFINISHED))
    needed = _needed_bundles(tx) | set(tx.execute(waiting).scalars())
    for selection in tx.execute(select(schema.schedule.c.selection)).scalars():
        needed.add(selection.get("driver", ""))
    timed = (
        select(job.bundle, job.against)
        .join(schema.attempt, schema.attempt.c.job_id == job.id)
        .where(job.arm_kind == ArmKind.DRIVER, schema.attempt.c.recorded_at >= before)
    )
    for row in tx.execute(timed.distinct()):
        needed |= set(row)
    environments = set(tx.execute(_needed_environments(before)).scalars())
    pinned = select(schema.baseline.c.value).where(schema.baseline.c.kind == ArmKind.DRIVER)
    for value in list(tx.execute(pinned).scalars()):
        needed.add(value)
        environments |= find_environments(tx, value).keys()
    known = schema.environment.c
    for page in batches(sorted(environments), 1000):
        for facts in tx.execute(select(known.facts).where(known.hash.in_(page))).scalars():
            extra = facts.get("extra") or {}
            needed |= {extra.get(DRIVER_SHA, ""), extra.get(ICD_LIBRARY, "")}
    return needed - {""}


def _needed_environments(before: float) -> CompoundSelect[str]:
    """The environments on both sides of unsettled changes, of baselines, and of late results."""
    attempt, known, change = schema.attempt.c, schema.environment.c, schema.change_point.c
    ran = exists().where(attempt.environment == known.hash, attempt.recorded_at >= before)
    return union(
        select(known.hash).where(ran),
        select(attempt.environment)
        .join(schema.job, schema.job.c.id == attempt.job_id)
        .join(schema.run, schema.run.c.id == schema.job.c.run_id)
        .join(schema.baseline, schema.baseline.c.value == schema.run.c.uuid),
        select(change.before_environment).where(_is_unsettled()),
        select(change.after_environment).where(_is_unsettled()),
    )


def _needed_runs(tx: Connection) -> set[int]:
    """Runs of baselines, and those in which changes that are not settled were seen or measured."""
    run, job, change = schema.run.c, schema.job.c, schema.change_point.c
    baseline, confirmation, step = schema.baseline.c, schema.confirmation.c, schema.bisection_step.c
    bisection = schema.bisection.c
    ends = or_(job.id == change.before_job, job.id == change.after_job)
    query = union(
        select(run.id).join(schema.baseline, baseline.value == run.uuid),
        select(job.run_id).join(schema.change_point, ends).where(_is_unsettled()),
        select(confirmation.run_id)
        .join(schema.change_point, change.id == confirmation.change_point_id)
        .where(_is_unsettled()),
        select(step.run_id)
        .join(schema.bisection, bisection.id == step.bisection_id)
        .where(bisection.state == RUNNING),
    )
    return set(tx.execute(query).scalars())


def _pinned_runs() -> Select[int]:
    """Runs in which a bundle or a build ran that is a baseline."""
    job, attempt = schema.job.c, schema.attempt.c
    pinned = select(schema.baseline.c.value).where(schema.baseline.c.kind.in_(_ARMS))
    return (
        select(job.run_id)
        .distinct()
        .join(schema.attempt, attempt.job_id == job.id)
        .where(attempt.bundle.in_(pinned))
    )


def _is_unsettled() -> ColumnElement[bool]:
    """Whether a change point is one that people or services still work on."""
    change, member = schema.change_point.c, schema.regression_member.c
    regression = schema.regression.c
    over = (
        select(member.change_point_id)
        .join(schema.regression, regression.id == member.regression_id)
        .where(regression.state.in_(OVER))
    )
    return (change.state != DISMISSED) & change.id.not_in(over)


def _texts(value: object) -> set[str]:
    """All texts in what a column of JSON holds."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, dict):
        return {text for part in value.values() for text in _texts(part)}
    if isinstance(value, list):
        return {text for part in value for text in _texts(part)}
    return set()
