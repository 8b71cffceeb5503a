"""What a run of paired jobs found: the times of both arms, and whose outputs were wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, Subquery, select

from vkbench.case import WEIGHTS, is_model, parse
from vkbench.job import UNFINISHED, JobState, PlannedJob, Source
from vkbench.result import Side, WrongArm
from vkbench_db import schema
from vkbench_db.work.jobs import job_of
from vkbench_detection.find.failures import are_of_case, describe_tries, tries

BROKEN_OFF: Final = "the time was over while it was measured"  # why a pair is cancelled


class PairedCase(NamedTuple):
    """A case on a device (key), of which a run has pairs."""

    device: str
    case: str


@dataclass(frozen=True, kw_only=True)
class PairResults:
    """The pairs of a run so far, in the order of its jobs: `old` and `new` belong together."""

    old: tuple[float, ...]  # seconds of one launch
    new: tuple[float, ...]
    old_wrong: str  # why outputs of the old bundle were wrong first; "" if they never were
    new_wrong: str
    failed: str  # why a pair was not measured (failed, skipped, cancelled), the first time; or ""
    skipped: str = ""  # why an arm cannot do the case, the first time; or ""
    crashed: str = ""  # how a pair failed that its bundles are to blame for, the first time; or ""
    broken_off: bool = False  # whether the time was over while one was measured
    pending: int  # jobs that have not ended


def is_pending(tx: Connection, run: int) -> bool:
    """Whether a run has jobs that have not ended; cheap, because it is asked each second."""
    job = schema.job.c
    waiting = select(job.id).where(job.run_id == run, job.state.in_(UNFINISHED)).limit(1)
    return tx.execute(waiting).first() is not None


def pair_results(tx: Connection, run: int) -> PairResults:
    """What the paired jobs of a run found so far."""
    return _sum_up(tx, _list_pairs(tx, run))


def results_by_case(tx: Connection, run: int) -> dict[PairedCase, PairResults]:
    """What the pairs of each case on each device found so far, in the order of a run's jobs."""
    rows: dict[PairedCase, list[Row[Any]]] = {}
    for row in _list_pairs(tx, run):
        rows.setdefault(PairedCase(row.device, row.case), []).append(row)
    return {paired_case: _sum_up(tx, pairs) for paired_case, pairs in rows.items()}


def _list_pairs(tx: Connection, run: int) -> Sequence[Row[Any]]:
    """The paired jobs of a run, with the times of both arms and what was wrong."""
    job, verdict, old, new = schema.job.c, schema.verdict.c, _timing(Side.OLD), _timing(Side.NEW)
    device, known = schema.device.c, schema.kernel_case.c
    query = (
        select(
            *(job.id, job.state, job.cause, job.reason),
            *(device.key.label("device"), known.name.label("case")),
            *(verdict.wrong_arm, verdict.reason.label("why_wrong")),
            *(old.c.seconds.label("old"), new.c.seconds.label("new")),
        )
        .join(schema.device, device.id == job.device_id)
        .join(schema.kernel_case, known.id == job.case_id)
        .outerjoin(schema.verdict, verdict.job_id == job.id)
        .outerjoin(old, old.c.job_id == job.id)
        .outerjoin(new, new.c.job_id == job.id)
        .where(job.run_id == run)
        .order_by(job.position)
    )
    return tx.execute(query).all()


def _sum_up(tx: Connection, rows: Sequence[Row[Any]]) -> PairResults:
    wrong = [(WrongArm(row.wrong_arm), row.why_wrong) for row in rows if row.wrong_arm]
    ended = [row for row in rows if row.state not in (*UNFINISHED, JobState.PASSED, JobState.WRONG)]
    paired = [(row.old, row.new) for row in rows if row.old and row.new]
    return PairResults(
        old=tuple(pair[0] for pair in paired),
        new=tuple(pair[1] for pair in paired),
        old_wrong=next((why for arm, why in wrong if arm.is_old), ""),
        new_wrong=next((why for arm, why in wrong if arm.is_new), ""),
        failed=next((row.reason or row.cause or row.state for row in ended), ""),
        skipped=next((row.reason for row in ended if row.state == JobState.SKIPPED), ""),
        crashed=_describe_crash(tx, {row.id: row.reason for row in ended}),
        broken_off=any(row.reason == BROKEN_OFF for row in ended),
        pending=sum(row.state in UNFINISHED for row in rows),
    )


def last_pairs(tx: Connection, run: int) -> dict[PairedCase, PlannedJob]:
    """The last pair of each case on each device in a run, to be asked for again."""
    job, device, known = schema.job.c, schema.device.c, schema.kernel_case.c
    rows = tx.execute(
        select(schema.job, device.key.label("device"), known.name.label("case"))
        .join(schema.device, device.id == job.device_id)
        .join(schema.kernel_case, known.id == job.case_id)
        .where(job.run_id == run)
        .order_by(job.position)
    ).mappings()
    last = {PairedCase(row["device"], row["case"]): row for row in rows}
    newest = sorted(last.items(), key=lambda pair: pair[1]["position"])
    return {paired_case: job_of(row, PlannedJob) for paired_case, row in newest}


def last_source(tx: Connection, case: str, device: str) -> Source | None:
    """Where the weights of a case lie on a device's host, as the last job with them knew it."""
    if WEIGHTS not in parse(case).params and not is_model(case):
        return None
    job = schema.job.c
    source = tx.execute(
        select(job.source)
        .join(schema.device, schema.device.c.id == job.device_id)
        .join(schema.kernel_case, schema.kernel_case.c.id == job.case_id)
        .where(
            schema.device.c.key == device,
            schema.kernel_case.c.name == case,
            job.source.is_not(None),
        )
        .order_by(job.id.desc())
        .limit(1)
    ).scalar()
    return Source(**source) if source else None


def _describe_crash(tx: Connection, ended: Mapping[int, str]) -> str:
    tried = tries(tx, list(ended))
    own = (
        describe_tries(tried[job], reason)
        for job, reason in ended.items()
        if are_of_case(tried[job])
    )
    return next(own, "")


def _timing(side: Side) -> Subquery:
    measurement = schema.measurement.c
    return (
        select(measurement.job_id, measurement.seconds)
        .where(measurement.side == side)
        .subquery(side)
    )
