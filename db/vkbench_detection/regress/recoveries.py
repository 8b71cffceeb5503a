"""Regressions that are over: fixed when every member is back, verified when all of them stay so.

A member is back when later changes of its own cause took most of it back: a driver that makes all
faster hides a slower kernel, and does not mend it. Nobody waits for members on devices that are
gone, and improvements close by themselves: there is nothing to do about them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import log

from sqlalchemy import Connection, func, select

from vkbench.job import JobState
from vkbench_db import schema
from vkbench_db.database import watch_alone
from vkbench_db.rows import fetch, select_record
from vkbench_detection.changes.change_point import Method
from vkbench_detection.changes.decisions import OF_CODE, OF_SOFTWARE, VERDICTS, Cause
from vkbench_detection.changes.states import UNDECIDED, ChangeState
from vkbench_detection.confirm.fleet import GONE_SECONDS, gone_devices
from vkbench_detection.find.verdict_changes import chain, links
from vkbench_detection.regress.regressions import move
from vkbench_detection.regress.stages import JOINED, UNSETTLED, RegressionStage
from vkbench_detection.statistics.screen import Direction

STAYS = 5  # good results after a fix that verify it
PRAISED_SECONDS = 14 * 86_400.0  # an improvement that did not grow for so long is closed
BACK = 0.5  # of a change: what is left when a series counts as back


@dataclass(frozen=True)
class Return:
    """Whether a member of a regression is back where it was."""

    is_back: bool
    results: int = 0  # since it came back
    is_gone: bool = False  # its device brings no more results

    @property
    def stays(self) -> bool:
        """Whether it has been back for long enough."""
        return self.is_back and self.results >= STAYS


@dataclass(frozen=True, kw_only=True)
class _Regression:
    """A regression that may be over."""

    id: int
    state: str
    direction: str
    changed_at: float


@dataclass(frozen=True, kw_only=True)
class _Member:
    """A change of a regression, and when its first bad job ended."""

    series_id: int
    device_id: int
    direction: str
    cause: str
    ratio: float | None
    before_job: int
    after_job: int
    before_kernel: str
    before_environment: str
    finished_at: float


@dataclass(frozen=True, kw_only=True)
class _Later:
    """A change of the same series after it."""

    state: str
    direction: str
    cause: str
    ratio: float | None
    after_kernel: str
    after_environment: str
    finished_at: float


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """A regression that is over, and the stage that it moves to."""

    regression: int
    stage: RegressionStage
    note: str


def settle(tx: Connection, now: float) -> list[int]:
    """Move regressions that are over to their next stage; return which."""
    watch_alone(tx)
    decisions = recoveries(tx, now)
    for step in decisions:
        move(tx, step.regression, step.stage, now, note=step.note)
    return [step.regression for step in decisions]


def recoveries(tx: Connection, now: float) -> list[Recovery]:
    """Regressions whose members are back, have stayed so, or are gone; and what each becomes."""
    table = schema.regression.c
    query = (
        select_record(_Regression, schema.regression)
        .where(table.state.in_(JOINED))
        .order_by(table.id)
    )
    devices = gone_devices(tx, now)
    returned = (
        _recovery(regression, _returns(tx, regression, devices), now)
        for regression in fetch(tx, query, _Regression)
    )
    return [recovery for recovery in returned if recovery]


def _recovery(regression: _Regression, returns: Sequence[Return], now: float) -> Recovery | None:
    is_praise = regression.direction == Direction.FASTER
    if is_praise and regression.changed_at <= now - PRAISED_SECONDS:
        return _close_regression(regression, f"it has stayed for {_days(PRAISED_SECONDS)} days")
    over = [back for back in returns if _is_over(regression, back)]
    left = [back for back in returns if not _is_over(regression, back)]
    if not returns or not all(back.is_gone for back in left):
        return None
    if not over:
        is_old = regression.changed_at <= now - GONE_SECONDS
        text = f"its devices have brought no result for {_days(GONE_SECONDS)} days"
        return _close_regression(regression, text) if is_old else None
    without = ", without those on devices that bring no more results" if left else ""
    if regression.state in UNSETTLED:
        note = f"every member is back where it was{without}"
        stage = RegressionStage.CLOSED if is_praise else RegressionStage.FIXED
        return Recovery(regression=regression.id, stage=stage, note=note)
    note = f"{STAYS} good results of each since then{without}"
    return Recovery(regression=regression.id, stage=RegressionStage.VERIFIED, note=note)


def _is_over(regression: _Regression, member: Return) -> bool:
    return member.stays if regression.state == RegressionStage.FIXED else member.is_back


def _close_regression(regression: _Regression, note: str) -> Recovery:
    return Recovery(regression=regression.id, stage=RegressionStage.CLOSED, note=note)


def _days(seconds: float) -> int:
    return round(seconds / 86_400)


def _returns(tx: Connection, regression: _Regression, devices: Collection[int]) -> list[Return]:
    """Whether each member is back, up to the first that is waited for; `devices` are gone."""
    change, member, job = schema.change_point.c, schema.regression_member.c, schema.job.c
    query = (
        select_record(_Member, schema.change_point, schema.job)
        .join(schema.regression_member, member.change_point_id == change.id)
        .join(schema.job, job.id == change.after_job)
        .where(member.regression_id == regression.id)
        .order_by(change.id)
    )
    returns = []
    for changed in fetch(tx, query, _Member):
        back = _verdict(tx, changed) if changed.direction in VERDICTS else _time(tx, changed)
        returns.append(replace(back, is_gone=changed.device_id in devices))
        if not _is_over(regression, back) and not returns[-1].is_gone:
            break
    return returns


def _verdict(tx: Connection, member: _Member) -> Return:
    """Count right results since the last wrong one, after the change.

    They are jobs like the last good one: the wrong job may be a pair, which has no such chain. A
    case that fails once more is a change of its own.
    """
    [link] = links(tx, [member.before_job])
    later = tx.execute(
        chain(link, before=False, beside=(member.finished_at, member.after_job))
    ).all()
    right = 0
    for row in reversed(later):
        if row.state != JobState.PASSED:
            break
        right += 1
    return Return(right > 0, right)


def _time(tx: Connection, member: _Member) -> Return:
    """Whether later changes of its cause took most of it back, and how long ago the last did."""
    later = _later(tx, member)
    if any(row.state in UNDECIDED and row.direction == member.direction for row in later):
        return Return(False)
    left = change = log(member.ratio or 1.0)
    for row in later:
        if row.state == ChangeState.CONFIRMED and row.ratio and _has_its_cause(member, row):
            left += log(row.ratio)
            if abs(left) <= BACK * abs(change) or left * change < 0:
                return Return(True, _results(tx, member.series_id, row.finished_at))
    return Return(False)


def _has_its_cause(member: _Member, later: _Later) -> bool:
    """Whether a later change can undo a member: it has the same cause, as far as that is known."""
    if later.cause == member.cause:
        return True
    if member.cause in OF_SOFTWARE and later.cause in OF_SOFTWARE:
        return True  # which of them it is depends on whether the files of both drivers are kept
    if member.cause == Cause.UNKNOWN:
        return later.cause in (*OF_CODE, *OF_SOFTWARE)
    if later.cause != Cause.UNKNOWN:
        return False
    if member.cause in OF_CODE:
        return later.after_kernel == member.before_kernel
    is_old_environment = later.after_environment == member.before_environment
    return member.cause in OF_SOFTWARE and is_old_environment


def _later(tx: Connection, member: _Member) -> list[_Later]:
    change, job = schema.change_point.c, schema.job.c
    query = (
        select_record(_Later, schema.change_point, schema.job)
        .join(schema.job, job.id == change.after_job)
        .where(
            *(change.series_id == member.series_id, job.finished_at > member.finished_at),
            change.method != Method.DECAY,  # the sum of what was below every threshold
        )
        .order_by(job.finished_at, change.id)
    )
    return fetch(tx, query, _Later)


def _results(tx: Connection, series: int, since: float) -> int:
    measurement = schema.measurement.c
    return tx.execute(
        select(func.count()).where(
            measurement.series_id == series,
            measurement.measured_at >= since,
            measurement.flag == "",
        )
    ).scalar_one()
