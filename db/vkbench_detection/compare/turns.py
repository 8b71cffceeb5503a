"""Work that both sides of a comparison did in pairs: two builds, or two drivers, in turns.

What was timed in turns has met the same moments, and says more of two arms than their runs at two
times do. So where there are pairs of them, their times replace those of the runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, and_, or_, select

from vkbench.job import Arm, ArmKind, JobState, Mode
from vkbench.programs.build import SHA_SHOWN
from vkbench.result import Side as TimedSide
from vkbench.result import WrongArm
from vkbench_db import schema
from vkbench_db.ask.driver_names import find_files
from vkbench_db.work.builds import is_of_build
from vkbench_detection.compare.references import Reference, ran_arm
from vkbench_detection.compare.sides import ComparedWork, Key, Side, interval

MOST_PAIRS: Final = 100  # of one piece of work, the newest
Works = dict[Key, ComparedWork]


@dataclass(kw_only=True)
class _Turns:
    """The pairs of a piece of work, the newest first."""

    kernel: str  # which was timed last; pairs of others do not count
    job: int
    states: tuple[JobState, JobState] = (JobState.PASSED, JobState.PASSED)  # old, new
    rows: dict[str, list[tuple[float, float, int]]] = field(default_factory=dict)  # by metric


def add_turns(
    tx: Connection,
    references: tuple[Reference, Reference],
    works: tuple[Works, Works],
    metrics: Sequence[str],
    device: int | None = None,
) -> None:
    """Put what both references did in pairs into their works, in place of what they did alone.

    With a device's number, only what was done there.
    """
    old, new = (reference.chosen for reference in references)
    if not (isinstance(old, Arm) and isinstance(new, Arm)) or old.kind != new.kind:
        return
    if old.kind is ArmKind.BUNDLE or old == new:
        return
    for key, turns in _find_turns(tx, old, new).items():
        if device not in (None, key[0]):
            continue
        timed = {
            name: rows
            for name, rows in turns.rows.items()
            if rows and (not metrics or name in metrics)
        }
        both = all(key in side for side in works)
        for place, side in enumerate(works):
            sides = {name: _side(rows, place, turns.job) for name, rows in timed.items()}
            if both:
                side[key] = side[key]._replace(sides={**side[key].sides, **sides})
            else:
                side[key] = ComparedWork(turns.states[place], turns.job, (), sides)


def _find_turns(tx: Connection, old: Arm, new: Arm) -> Mapping[Key, _Turns]:
    by_work: dict[Key, _Turns] = {}
    names = [_names_of(tx, arm) for arm in (old, new)]
    for row in _list_pairs(tx, old, new):
        ends = (_shorten(row.against, old.kind), _shorten(row.bundle, old.kind))
        is_straight = ends[0] in names[0] and ends[1] in names[1]
        if not is_straight and not (ends[0] in names[1] and ends[1] in names[0]):
            continue
        key = (row.device_id, row.case_id, str(Mode.PERFORMANCE), row.variant)
        turns = by_work.setdefault(key, _Turns(kernel=row.kernel_sha, job=row.id))
        if turns.job == row.id:
            turns.states = _states(row, is_straight=is_straight)
        rows = turns.rows.setdefault(row.metric, [])
        if row.kernel_sha == turns.kernel and row.old and row.new and len(rows) < MOST_PAIRS:
            times = (row.old, row.new) if is_straight else (row.new, row.old)
            rows.append((*times, row.samples))
    return by_work


def _list_pairs(tx: Connection, old: Arm, new: Arm) -> Iterable[Row[Any]]:
    """The pairs of two arms that gave times, or said which of them is wrong; the newest first."""
    job, attempt, verdict = schema.job.c, schema.attempt.c, schema.verdict.c
    before, after = (schema.measurement.alias(str(side)) for side in (TimedSide.OLD, TimedSide.NEW))
    query = (
        select(
            *(job.id, job.device_id, job.case_id, job.variant, job.metric, job.state),
            *(job.bundle, job.against, attempt.kernel_sha, verdict.wrong_arm),
            *(
                before.c.seconds.label("old"),
                after.c.seconds.label("new"),
                after.c.count.label("samples"),
            ),
        )
        .join(schema.attempt, schema.is_settling)
        .outerjoin(schema.verdict, verdict.job_id == job.id)
        .outerjoin(before, and_(before.c.job_id == job.id, before.c.side == TimedSide.OLD))
        .outerjoin(after, and_(after.c.job_id == job.id, after.c.side == TimedSide.NEW))
        .where(job.mode == Mode.PAIRED, job.state.in_((JobState.PASSED, JobState.WRONG)))
        .where(*_are_of(tx, old, new))
        .order_by(job.id.desc())
    )
    return tx.execute(query)


def _are_of(tx: Connection, old: Arm, new: Arm) -> tuple[ColumnElement[bool], ...]:
    """Whether pairs are of two arms: of drivers, whether the newer one was either of them."""
    job = schema.job.c
    if old.kind is ArmKind.BUILD:
        # no OR of both orders: SQLite would read all jobs for it, where this takes an index
        ends = (new.name, old.name)
        return (is_of_build(schema.job), job.bundle.in_(ends), job.against.in_(ends))
    return (job.arm_kind == ArmKind.DRIVER, or_(ran_arm(tx, old), ran_arm(tx, new)))


def _names_of(tx: Connection, arm: Arm) -> set[str]:
    return {arm.name} if arm.kind is ArmKind.BUILD else find_files(tx, arm.name)


def _shorten(sha: str, kind: ArmKind) -> str:
    """A hash as environments have it: those of drivers say its first digits."""
    return sha[:SHA_SHOWN] if kind is ArmKind.DRIVER else sha


def _states(row: Row[Any], *, is_straight: bool) -> tuple[JobState, JobState]:
    """What both arms were in a pair, the old one first."""
    if row.state == JobState.PASSED or not row.wrong_arm:
        return JobState.PASSED, JobState.PASSED
    arm = WrongArm(row.wrong_arm)
    wrong = (arm.is_old, arm.is_new) if is_straight else (arm.is_new, arm.is_old)
    old, new = (JobState.WRONG if is_wrong else JobState.PASSED for is_wrong in wrong)
    return old, new


def _side(rows: Sequence[tuple[float, float, int]], place: int, job: int) -> Side:
    values = tuple(row[place] for row in reversed(rows))
    low, high = interval(values, values, values)
    return Side(
        value=median(values),
        values=values,
        low=low,
        high=high,
        samples=sum(row[2] for row in rows),
        job=job,
        flag="",
        series=None,
        is_in_turns=True,
    )
