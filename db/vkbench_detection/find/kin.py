"""Levels too young for the screen are judged by their kin, from their third result.

The screen needs 20 results of a level. Until then the results before the last move of kernel or
environment are held against those after it, by the scatter of the series or of its device. Where
kin show the same change, its size alone counts: the same case on other devices with the same two
kernels, or other series of the device with the same two environments. Pairs decide.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, sqrt
from statistics import median
from typing import TypeAlias

from sqlalchemy import Connection, select

from vkbench_db import schema
from vkbench_db.rows import fetch
from vkbench_detection.changes.change_point import ChangePoint
from vkbench_detection.changes.decisions import Cause, Method, Suspicion, cause_of
from vkbench_detection.changes.states import UNDECIDED, ChangeState
from vkbench_detection.changes.transitions import suspect
from vkbench_detection.confirm.remeasured import LEAST_BEFORE
from vkbench_detection.find.levels import begins_level, changes_of, first_jobs
from vkbench_detection.series import screens
from vkbench_detection.series.points import Origin, origins
from vkbench_detection.series.profiles import device_sigmas
from vkbench_detection.statistics.screen import JUMP_CHANGE, JUMP_SIGMAS, LEAST, Direction

FEWEST = 3  # results of a level
Level: TypeAlias = Sequence[tuple[int, float]]  # jobs, and logarithms of seconds

AGREEING = (ChangeState.CONFIRMED, *UNDECIDED)  # changes of kin that speak for one here


@dataclass(frozen=True, kw_only=True)
class _Young:
    """A series whose level is too young for the screen."""

    id: int
    case_id: int
    device_id: int
    device: str  # key
    sigma: float | None


@dataclass(frozen=True, kw_only=True)
class _Move:
    """What a series did at the last move of its level."""

    before_job: int
    after_job: int
    before: Origin
    after: Origin
    cause: Cause
    results: int  # before it
    change: float  # of the logarithm of seconds
    error: float  # of it, in sigmas of one result

    @property
    def direction(self) -> Direction:
        """Where the times went."""
        return Direction.SLOWER if self.change > 0 else Direction.FASTER


def judge_young(tx: Connection, series: Iterable[int], now: float) -> list[int]:
    """Suspect changes within levels that the screen cannot judge yet; return the new ones."""
    stored = screens.load(tx, list(series))
    levels = {number: screen.level for number, screen in stored.items()}
    young = {number: level for number, level in levels.items() if FEWEST <= len(level) < LEAST}
    moments = origins(tx, [job for level in young.values() for job, _ in level])
    moves = {number: _last_move(level, moments) for number, level in young.items()}
    moves = {number: move for number, move in moves.items() if abs(move.change) >= JUMP_CHANGE}
    if not moves:
        return []
    usual = device_sigmas(tx)
    found = [
        _suspicion(tx, each, moves[each.id], each.sigma or usual[each.device])
        for each in _rows(tx, moves)
    ]
    return suspect(tx, [each for each in found if each], now)


def _rows(tx: Connection, series: Collection[int]) -> list[_Young]:
    table, device = schema.series.c, schema.device.c
    asked = (
        select(table.id, table.case_id, table.device_id, device.key.label("device"), table.sigma)
        .join(schema.device, device.id == table.device_id)
        .where(table.id.in_(series))
        .order_by(table.id)
    )
    return fetch(tx, asked, _Young)


def _suspicion(tx: Connection, series: _Young, move: _Move, sigma: float) -> Suspicion | None:
    if move.cause in (Cause.ENVIRONMENT, Cause.HOST) and move.results < LEAST_BEFORE:
        return None  # pairs are held against what was before: there is too little
    is_plain = abs(move.change) >= JUMP_SIGMAS * sigma * move.error
    if not is_plain and not _has_kin(tx, series, move):
        return None
    known = changes_of(tx, series.id)
    if move.cause is Cause.HOST and not first_jobs(known):
        return None  # of a new series nothing says how much it moves by itself
    if _was_asked(known, move):
        return None
    said = "plain beside its scatter" if is_plain else "as its kin"
    return Suspicion(
        series=series.id,
        method=Method.KIN,
        direction=move.direction,
        before_job=move.before_job,
        after_job=move.after_job,
        ratio=exp(move.change),
        note=f"{exp(move.change):.4f} after {move.results} results of a young level, {said}",
    )


def _last_move(level: Level, moments: Mapping[int, Origin]) -> _Move:
    """Where kernel or environment moved last; the last result where neither did."""
    jobs = [job for job, _ in level]
    seconds = [value for _, value in level]
    causes = [cause_of(moments[job], moments[later]) for job, later in pairwise(jobs)]
    moved = [place for place, cause in enumerate(causes, 1) if cause is not Cause.HOST]
    place = moved[-1] if moved else len(jobs) - 1
    return _Move(
        before_job=jobs[place - 1],
        after_job=jobs[place],
        before=moments[jobs[place - 1]],
        after=moments[jobs[place]],
        cause=causes[place - 1],
        results=place,
        change=median(seconds[place:]) - median(seconds[:place]),
        error=sqrt(1 / place + 1 / (len(jobs) - place)),
    )


def _was_asked(known: Sequence[ChangePoint], move: _Move) -> bool:
    """Whether such a suspicion is open, or was decided: of this job, or of a host in this level."""
    start = max((row.id for row in known if begins_level(row)), default=0)
    return any(
        row.state in UNDECIDED
        or row.after_job == move.after_job
        or (row.id > start and row.method == Method.KIN and move.cause is Cause.HOST)
        for row in known
        if row.direction == move.direction and row.id != start
    )


def _has_kin(tx: Connection, series: _Young, move: _Move) -> bool:
    """Whether a change of the same move and direction is suspected or confirmed elsewhere."""
    change, table = schema.change_point.c, schema.series.c
    before, after = move.before, move.after
    is_kin = (
        (table.case_id == series.case_id)
        & (change.before_kernel == before.kernel)
        & (change.after_kernel == after.kernel)
        if before.kernel != after.kernel
        else (table.device_id == series.device_id)
        & (change.before_environment == before.environment)
        & (change.after_environment == after.environment)
        & (change.before_environment != change.after_environment)
    )
    asked = (
        select(change.id)
        .join(schema.series, table.id == change.series_id)
        .where(
            is_kin,
            *(change.series_id != series.id, change.direction == move.direction),
            change.state.in_(AGREEING),
        )
    )
    return tx.execute(asked.limit(1)).first() is not None
