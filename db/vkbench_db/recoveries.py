"""Regressions that are over: fixed when every member is back, verified when all of them stay so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any

from sqlalchemy import Connection, Row, func, select

from vkbench.job import State
from vkbench_db import models
from vkbench_db.change_points import UNDECIDED, WRONG, Standing
from vkbench_db.database import watch_alone
from vkbench_db.regressions import UNSETTLED, Stage, move
from vkbench_db.statistics.screen import Direction
from vkbench_db.wrongs import chain, links

STAYS = 5  # good results after a fix that verify it
BACK = 0.5  # of a change: what is left when a series counts as back

AnyRow = Row[*tuple[Any, ...]]


@dataclass(frozen=True)
class Return:
    """How a member of a regression stands."""

    is_back: bool
    results: int = 0  # since it came back

    @property
    def stays(self) -> bool:
        """Whether it has been back for long enough."""
        return self.is_back and self.results >= STAYS


def settle(tx: Connection, now: float) -> list[int]:
    """Move regressions that are over; says which."""
    watch_alone(tx)
    table = models.Regression
    rows = tx.execute(
        select(table.id, table.state, table.direction)
        .where(table.state.in_((*UNSETTLED, Stage.FIXED)))
        .order_by(table.id)
    ).all()
    return [row.id for row in rows if _settle(tx, row, now)]


def _settle(tx: Connection, regression: AnyRow, now: float) -> bool:
    returns = _returns(tx, regression)
    if not returns or not all(each.is_back for each in returns):
        return False
    if regression.state != Stage.FIXED:
        over = Stage.CLOSED if regression.direction == Direction.FASTER else Stage.FIXED
        move(tx, regression.id, over, now, note="every member is back where it was")
        return True
    if not all(each.stays for each in returns):
        return False
    move(tx, regression.id, Stage.VERIFIED, now, note=f"{STAYS} good results of each since then")
    return True


def _returns(tx: Connection, regression: AnyRow) -> list[Return]:
    """How the members stand, until the first that decides: not back, or not for long enough."""
    change, member, job = models.ChangePoint, models.RegressionMember, models.Job
    members = tx.execute(
        select(
            *(change.id, change.series_id, change.direction, change.ratio),
            *(change.before_job, change.after_job, job.finished_at),
        )
        .join(member, member.change_point_id == change.id)
        .join(job, job.id == change.after_job)
        .where(member.regression_id == regression.id)
        .order_by(change.id)
    ).all()
    found = []
    for each in members:
        found.append(_verdict(tx, each) if each.direction == WRONG else _time(tx, each))
        if not found[-1].is_back or (regression.state == Stage.FIXED and not found[-1].stays):
            break
    return found


def _verdict(tx: Connection, member: AnyRow) -> Return:
    """Right results since the last wrong one.

    They are of the chain of the job before: the wrong one may be a pair, which has none.
    """
    [link] = links(tx, [member.before_job])
    later = tx.execute(chain(link, before=False, beside=member)).all()
    right = 0
    for row in reversed(later):
        if row.state != State.PASSED:
            break
        right += 1
    return Return(right > 0, right)


def _time(tx: Connection, member: AnyRow) -> Return:
    """Whether the changes after it took most of it back, and how long ago."""
    later = _later(tx, member)
    if any(row.state in UNDECIDED and row.direction == member.direction for row in later):
        return Return(False)
    confirmed = [row for row in later if row.state == Standing.CONFIRMED and row.ratio]
    left = log(member.ratio) + sum(log(row.ratio) for row in confirmed)
    share = left / log(member.ratio)
    if not confirmed or share > BACK:
        return Return(False)
    return Return(True, _results(tx, member.series_id, confirmed[-1].finished_at))


def _later(tx: Connection, member: AnyRow) -> Sequence[AnyRow]:
    change, job = models.ChangePoint, models.Job
    return tx.execute(
        select(change.state, change.direction, change.ratio, job.finished_at)
        .join(job, job.id == change.after_job)
        .where(change.series_id == member.series_id, job.finished_at > member.finished_at)
        .order_by(job.finished_at, change.id)
    ).all()


def _results(tx: Connection, series: int, since: float) -> int:
    measurement = models.Measurement
    return tx.execute(
        select(func.count()).where(
            measurement.series_id == series,
            measurement.measured_at >= since,
            measurement.flag == "",
        )
    ).scalar_one()
