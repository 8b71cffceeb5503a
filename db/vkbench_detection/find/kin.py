"""Judges levels too young for the screen, by scatter and by the same case on other devices.

The screen needs 20 results of a level. Until then the results before the last new kernel are held
against those after it, by the scatter of the series or of its device. Of several new kernels in a
row, as builds of a program come, that one is taken which describes the results best. Where kin show
the same change, the same case on another device with the same two kernels, its size alone counts.
Pairs of both bundles decide alone: what came before is too little to hold results against. A new
environment is held against the results with the same kernel before it, once it has lasted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, sqrt
from statistics import median
from typing import TypeAlias

from sqlalchemy import Connection, select

from vkbench_db import schema
from vkbench_db.rows import fetch
from vkbench_detection.changes.change_point import ChangePoint, Method
from vkbench_detection.changes.decisions import Suspicion
from vkbench_detection.changes.states import UNDECIDED, ChangeState
from vkbench_detection.changes.transitions import suspect
from vkbench_detection.confirm.levels import LASTING
from vkbench_detection.find.levels import changes_of
from vkbench_detection.series import screens
from vkbench_detection.series.points import Origin, origins
from vkbench_detection.series.profiles import device_sigmas
from vkbench_detection.statistics.onsets import find_onset
from vkbench_detection.statistics.screen import JUMP_CHANGE, JUMP_SIGMAS, LEAST, Direction

FEWEST = 3  # results of a level
HALF = 0.5  # of a change, that each result since a new environment shows at least
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
    """What a series did when its kernel or its environment became another."""

    before_job: int
    after_job: int
    before_kernel: str
    after_kernel: str
    results: int  # of the level, before it
    change: float  # of the logarithm of seconds
    error: float  # of it, in sigmas of one result

    @property
    def is_new_kernel(self) -> bool:
        """Whether the kernel became another, not the environment alone."""
        return self.before_kernel != self.after_kernel

    @property
    def direction(self) -> Direction:
        """Whether times became slower or faster."""
        return Direction.SLOWER if self.change > 0 else Direction.FASTER


def judge_young(tx: Connection, series: Iterable[int], now: float) -> list[int]:
    """Suspect changes within levels that the screen cannot judge yet; return the new ones."""
    stored = screens.load(tx, list(series))
    levels = {
        number: [(job, value) for _, job, value in screen.recent]
        for number, screen in stored.items()
    }
    young = {number: level for number, level in levels.items() if FEWEST <= len(level) < LEAST}
    moments = origins(tx, [job for level in young.values() for job, _ in level])
    last_moves = {number: _last_move(level, moments) for number, level in young.items()}
    moves = {n: move for n, move in last_moves.items() if move and abs(move.change) >= JUMP_CHANGE}
    if not moves:
        return []
    usual = device_sigmas(tx)
    suspicions = [
        _suspicion(tx, row, moves[row.id], row.sigma or usual[row.device])
        for row in _rows(tx, moves)
    ]
    return suspect(tx, [suspicion for suspicion in suspicions if suspicion], now)


def _rows(tx: Connection, series: Collection[int]) -> list[_Young]:
    table, device = schema.series.c, schema.device.c
    query = (
        select(table.id, table.case_id, table.device_id, device.key.label("device"), table.sigma)
        .join(schema.device, device.id == table.device_id)
        .where(table.id.in_(series))
        .order_by(table.id)
    )
    return fetch(tx, query, _Young)


def _suspicion(tx: Connection, series: _Young, move: _Move, sigma: float) -> Suspicion | None:
    is_plain = abs(move.change) >= JUMP_SIGMAS * sigma * move.error
    if not is_plain and not (move.is_new_kernel and _has_kin(tx, series, move)):
        return None
    if any(_is_asked(row, move) for row in changes_of(tx, series.id)):
        return None
    manner = "plain beside its scatter" if is_plain else "as its kin"
    return Suspicion(
        series=series.id,
        method=Method.KIN,
        direction=move.direction,
        before_job=move.before_job,
        after_job=move.after_job,
        ratio=exp(move.change),
        note=f"{exp(move.change):.4f} after {move.results} results of a young level, {manner}",
    )


def _last_move(level: Level, moments: Mapping[int, Origin]) -> _Move | None:
    """Where the kernel moved, or after that the environment, for LASTING results."""
    made_with = [moments.get(job, Origin()) for job, _ in level]
    start, place = 0, _new_kernel([origin.kernel for origin in made_with], level)
    driver = _last_change([origin.environment for origin in made_with])
    if driver > place and _have_moved(level[place:driver], level[driver:]):
        start, place = place, driver
    if not place:
        return None
    before, after = _middle(level[start:place]), _middle(level[place:])
    return _Move(
        before_job=level[place - 1][0],
        after_job=level[place][0],
        before_kernel=made_with[place - 1].kernel,
        after_kernel=made_with[place].kernel,
        results=place - start,
        change=after - before,
        error=sqrt(1 / (place - start) + 1 / (len(level) - place)),
    )


def _have_moved(before: Level, after: Level) -> bool:
    """Whether a change has lasted, and each result shows it: hosts are busy for a night or two."""
    usual = _middle(before)
    change = _middle(after) - usual
    shares = [(value - usual) / change for _, value in after] if change else []
    return len(shares) >= LASTING and min(shares) >= HALF


def _middle(level: Level) -> float:
    return median(value for _, value in level)


def _new_kernel(kernels: Sequence[str], level: Level) -> int:
    """The place of the last new kernel, or of one shortly before it that describes results best."""
    places = _changes(kernels)
    if not places:
        return 0
    onset = find_onset([value for _, value in level], places[-1], places)
    return onset.index if onset.is_moved else places[-1]


def _last_change(values: Sequence[str]) -> int:
    """The last place whose value is another than the one before it; 0 where all are the same."""
    return max(_changes(values), default=0)


def _changes(values: Sequence[str]) -> list[int]:
    """The places whose value is another than the one before it."""
    return [place for place in range(1, len(values)) if values[place - 1] != values[place]]


def _is_asked(row: ChangePoint, move: _Move) -> bool:
    """Whether a change is such a suspicion that is open, or was decided."""
    is_same = row.state in UNDECIDED or row.after_job == move.after_job
    return is_same and row.direction == move.direction


def _has_kin(tx: Connection, series: _Young, move: _Move) -> bool:
    """Whether a change of these kernels is suspected or confirmed on another device."""
    change, table = schema.change_point.c, schema.series.c
    query = (
        select(change.id)
        .join(schema.series, table.id == change.series_id)
        .where(
            *(table.case_id == series.case_id, table.device_id != series.device_id),
            *(change.before_kernel == move.before_kernel, change.direction == move.direction),
            *(change.after_kernel == move.after_kernel, change.state.in_(AGREEING)),
        )
    )
    return tx.execute(query.limit(1)).first() is not None
