"""Suspicions measured again: which are next, which pairs they need, and what the pairs say.

Where the kernel changed and both bundles are kept, the old one runs beside the new one: if they
differ, it is the kernel. Else, or where they are equal, what was measured now is held against the
series: a shift that is gone was noise, one that stays is the environment's if that changed, else
the host's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from vkbench_db import models, screening
from vkbench_db.bundles import has_bundle
from vkbench_db.change_points import Finding, Standing, note, settle
from vkbench_db.pairs import PairResults
from vkbench_db.remeasured import Remeasured, judged
from vkbench_db.series import points_until
from vkbench_db.wrongs import wrong_pairs

FIRST_PAIRS = 4
MOST_PAIRS = 48  # asked for in all, those that failed too
LEVEL = 30  # results before a change that it is held against
PATIENCE_SECONDS = 86_400.0  # for pairs on a device that went away

AnyRow = Row[*tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A suspicion that can be measured again, and by which bundles."""

    change: int
    series: int
    device: str  # key
    device_id: int
    case: str
    variant: str
    metric: str
    direction: str
    environments: tuple[str, str]  # hashes, before and after the change
    is_new_kernel: bool  # whether another kernel came with the change
    old: str  # SHA-256 of a bundle
    new: str


@dataclass(frozen=True, kw_only=True)
class Running:
    """A confirmation whose pairs are asked for."""

    id: int
    change: int
    run: int
    pairs: int
    created_at: float


def waiting(tx: Connection, devices: set[int], now: float) -> list[Waiting]:
    """What can be measured again on these devices, the oldest suspicion first.

    A suspicion whose bundle is not kept becomes ambiguous: the pass over the history decides it.
    """
    found = []
    for row in _suspected(tx, devices):
        arms = _arms(tx, row)
        if arms is None:
            text = "its bundle is not kept: only more results can tell"
            settle(tx, row.id, Finding(state=Standing.AMBIGUOUS, note=text), now)
            screening.dismiss(tx, row.series_id)
            continue
        found.append(_waiting(row, *arms))
    return found


def running(tx: Connection) -> list[Running]:
    """Confirmations that have not ended."""
    table = models.Confirmation
    rows = tx.execute(
        select(table.id, table.change_point_id, table.run_id, table.pairs, table.created_at)
        .where(table.finished_at.is_(None))
        .order_by(table.id)
    )
    return [
        Running(
            id=row.id,
            change=row.change_point_id,
            run=row.run_id,
            pairs=row.pairs,
            created_at=row.created_at,
        )
        for row in rows
    ]


def begin(tx: Connection, change: int, run: int, now: float) -> None:
    """Note that a run of FIRST_PAIRS pairs was made for a suspicion."""
    row = {
        "change_point_id": change,
        "run_id": run,
        "created_at": now,
        "pairs": FIRST_PAIRS,
        "verdict": "",
    }
    tx.execute(insert(models.Confirmation), [row])
    table = models.ChangePoint
    tx.execute(update(table).where(table.id == change).values(state=Standing.CONFIRMING))
    note(tx, {change: f"{FIRST_PAIRS} pairs in run {run}"}, Standing.CONFIRMING, now)


def look(tx: Connection, confirmation: Running, found: PairResults, now: float) -> int:
    """Judge pairs that have all ended; says how many more are needed, 0 when it is over."""
    change = tx.execute(
        select(models.ChangePoint.__table__).where(models.ChangePoint.id == confirmation.change)
    ).one()
    before = points_until(tx, change.series_id, change.before_job, LEVEL)
    seconds = [point.seconds for point in before]
    judgement = judged(change, found, seconds, is_same=_is_same(tx, confirmation.run))
    table = models.Confirmation
    if judgement.more and not _is_cancelled(tx, confirmation.run):
        more = min(judgement.more, MOST_PAIRS - confirmation.pairs)
        if more > 0:
            asked = confirmation.pairs + more
            tx.execute(update(table).where(table.id == confirmation.id).values(pairs=asked))
            return more
    finish(tx, confirmation, judgement, now)
    if found.new_wrong:
        wrong_pairs(tx, change, confirmation.run, now)
    return 0


def finish(tx: Connection, confirmation: Running, judgement: Remeasured, now: float) -> None:
    """End a confirmation, its change point, and what the screen does next."""
    finding = judgement.finding
    table, change = models.Confirmation, models.ChangePoint
    tx.execute(
        update(table)
        .where(table.id == confirmation.id)
        .values(finished_at=now, verdict=judgement.verdict, **judgement.figures)
    )
    settle(tx, confirmation.change, finding, now)
    row = tx.execute(
        select(change.series_id, change.after_job).where(change.id == confirmation.change)
    ).one()
    if finding.state == Standing.CONFIRMED:
        screening.restart(tx, row.series_id, row.after_job)
    else:
        screening.dismiss(tx, row.series_id)


def abandon(tx: Connection, confirmation: Running, now: float) -> None:
    """End a confirmation whose device went away."""
    text = "its pairs were not measured within a day"
    finding = Finding(state=Standing.AMBIGUOUS, note=text)
    finish(tx, confirmation, Remeasured(finding=finding, verdict="abandoned"), now)


def _suspected(tx: Connection, devices: set[int]) -> Sequence[AnyRow]:
    change, series, device = models.ChangePoint, models.Series, models.Device
    return tx.execute(
        select(
            change.__table__,
            *(series.variant, series.metric, series.device_id),
            *(device.key.label("device"), device.bundle.label("packaged")),
            models.KernelCase.name.label("case"),
        )
        .join(series, series.id == change.series_id)
        .join(device, device.id == series.device_id)
        .join(models.KernelCase, models.KernelCase.id == series.case_id)
        .where(change.state == Standing.SUSPECTED, device.id.in_(devices))
        .order_by(change.found_at, change.id)
    ).all()


def _arms(tx: Connection, row: AnyRow) -> tuple[str, str] | None:
    """Old and new bundle; the new one twice where the old one cannot tell more."""
    new = row.after_bundle
    if not new or not (new == row.packaged or has_bundle(tx, new)):
        return None
    is_other = row.before_kernel != row.after_kernel and row.before_bundle not in ("", new)
    is_there = row.before_bundle == row.packaged or has_bundle(tx, row.before_bundle)
    return (row.before_bundle if is_other and is_there else new), new


def _is_same(tx: Connection, run: int) -> bool:
    job = models.Job
    pair = select(job.bundle, job.against).where(job.run_id == run).limit(1)
    row = tx.execute(pair).one()
    return bool(row.bundle == row.against)


def _is_cancelled(tx: Connection, run: int) -> bool:
    asked = select(models.Run.cancelled_at).where(models.Run.id == run)
    return tx.execute(asked).scalar() is not None


def _waiting(row: AnyRow, old: str, new: str) -> Waiting:
    return Waiting(
        change=row.id,
        series=row.series_id,
        device=row.device,
        device_id=row.device_id,
        case=row.case,
        variant=row.variant,
        metric=row.metric,
        direction=row.direction,
        environments=(row.before_environment, row.after_environment),
        is_new_kernel=row.before_kernel != row.after_kernel,
        old=old,
        new=new,
    )
