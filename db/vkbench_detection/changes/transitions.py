"""The only code that writes change points: each transition writes state, event and screen together.

Code that judges results returns `Suspicion`s, `Reopening`s and `Decision`s; `suspect`, `reopen` and
`apply` write them. A confirmed change restarts its series' screen at the new level. After one that
was dismissed or stays ambiguous, the screen goes on with the level that it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, insert, select, tuple_, update

from vkbench_db import schema
from vkbench_db.rows import insert_missing
from vkbench_detection.changes.decisions import Decision, Reopening, Suspicion
from vkbench_detection.changes.questions import begins_level
from vkbench_detection.changes.states import REACHED_FROM, ChangeState
from vkbench_detection.errors import ImpossibleTransition
from vkbench_detection.series import screens
from vkbench_detection.series.points import Origin, origins

Key = tuple[int, int, str]  # series, first bad job, direction: one change point at most


_TOLD = "imported from another program's file: only pairs of both builds confirm it"


def suspect(tx: Connection, suspicions: Sequence[Suspicion], now: float) -> list[int]:
    """Store suspicions that are not known yet, with their conclusions; return the new ids."""
    if not suspicions:
        return []
    known = origins(
        tx, [job for suspicion in suspicions for job in (suspicion.before_job, suspicion.after_job)]
    )
    before = _ids(tx, suspicions)
    insert_missing(
        tx, schema.change_point, [_row(suspicion, known, now) for suspicion in suspicions]
    )
    made = {key: change for key, change in _ids(tx, suspicions).items() if key not in before}
    new: dict[int, Suspicion] = {}
    for suspicion in suspicions:
        if _key(suspicion) in made:
            new.setdefault(made[_key(suspicion)], suspicion)
    for change, new_suspicion in new.items():
        sides = (known.get(new_suspicion.before_job), known.get(new_suspicion.after_job))
        is_told = any(side.is_told for side in sides if side)
        note = f"{new_suspicion.note}; {_TOLD}" if is_told else new_suspicion.note
        _note(tx, change, ChangeState.SUSPECTED, note, now)
    concluded = [
        Decision(change=change, conclusion=new_suspicion.conclusion)
        for change, new_suspicion in new.items()
        if new_suspicion.conclusion
    ]
    apply(tx, concluded, now)
    return sorted(new)


def reopen(tx: Connection, reopenings: Iterable[Reopening], now: float) -> None:
    """Suspect changes again that are not confirmed, be it at another place; the screen goes on."""
    for reopening in reopenings:
        figures = {"ratio": reopening.ratio, "low": None, "high": None, "p": None}
        if reopening.between:
            _relocate(tx, reopening.change, *reopening.between, now)
        _move(tx, reopening.change, ChangeState.SUSPECTED, cause="", **figures)
        _note(tx, reopening.change, ChangeState.SUSPECTED, reopening.note, now)


def pass_over(tx: Connection, series: Iterable[int]) -> None:
    """Leave alarms alone that tell nothing new of a decided change; their screens go on."""
    for number in series:
        screens.resume(tx, number)


def begin(tx: Connection, change: int, note: str, now: float) -> None:
    """Begin to measure a suspicion again; its screen goes on and waits for the decision."""
    _move(tx, change, ChangeState.CONFIRMING)
    _note(tx, change, ChangeState.CONFIRMING, note, now)


def apply(tx: Connection, decisions: Iterable[Decision], now: float) -> None:
    """Write decisions, confirmed ones last: a restarted screen stays as it is."""
    by_state: dict[ChangeState, list[Decision]] = {}
    for decision in decisions:
        by_state.setdefault(decision.conclusion.state, []).append(decision)
    dismiss(tx, by_state.pop(ChangeState.DISMISSED, []), now)
    doubt(tx, by_state.pop(ChangeState.AMBIGUOUS, []), now)
    confirm(tx, by_state.pop(ChangeState.CONFIRMED, []), now)
    for state in by_state:
        raise ImpossibleTransition(f"'{state}' decides nothing")


def confirm(tx: Connection, decisions: Iterable[Decision], now: float) -> None:
    """Confirm changes; the screen of each series restarts at its last confirmed change."""
    for series in _decide(tx, decisions, ChangeState.CONFIRMED, now):
        job = _last_confirmed(tx, series)
        if job is not None:
            screens.restart(tx, series, job)


def dismiss(tx: Connection, decisions: Iterable[Decision], now: float) -> None:
    """Dismiss suspicions that were wrong; the screen of each series goes on."""
    for series in _decide(tx, decisions, ChangeState.DISMISSED, now):
        screens.resume(tx, series)


def doubt(tx: Connection, decisions: Iterable[Decision], now: float) -> None:
    """Leave changes ambiguous, for people to look at; the screen of each series goes on."""
    for series in _decide(tx, decisions, ChangeState.AMBIGUOUS, now):
        screens.resume(tx, series)


def _decide(
    tx: Connection, decisions: Iterable[Decision], state: ChangeState, now: float
) -> list[int]:
    """Write state, figures and event of each decision; return the series, each once."""
    touched: dict[int, None] = {}
    for decision in decisions:
        conclusion = decision.conclusion
        if decision.between:
            _relocate(tx, decision.change, *decision.between, now)
        values: dict[str, Any] = dict(conclusion.figures)
        if conclusion.cause:
            values["cause"] = conclusion.cause
        touched[_move(tx, decision.change, state, **values)] = None
        _note(tx, decision.change, state, conclusion.note, now)
    return list(touched)


def _move(tx: Connection, change: int, state: ChangeState, **values: Any) -> int:
    """Move a change point to a state that can be reached from its own; return its series."""
    table = schema.change_point.c
    moved = (
        update(schema.change_point)
        .where(table.id == change, table.state.in_(REACHED_FROM[state]))
        .values(state=state, **values)
        .returning(table.series_id)
    )
    series = tx.execute(moved).scalar()
    if series is None:
        state_before = tx.execute(select(table.state).where(table.id == change)).scalar()
        raise ImpossibleTransition(f"change {change} is {state_before}: it cannot become {state}")
    return series


def _relocate(tx: Connection, change: int, before_job: int, after_job: int, now: float) -> None:
    """Say more exactly where a change lies; the event keeps where it was before."""
    table = schema.change_point.c
    old = tx.execute(
        select(table.before_job, table.after_job, table.state).where(table.id == change)
    ).one()
    if (old.before_job, old.after_job) == (before_job, after_job):
        return
    places = _places(before_job, after_job, origins(tx, [before_job, after_job]))
    tx.execute(update(schema.change_point).where(table.id == change).values(**places))
    text = f"it began with job {after_job}, not with {old.after_job} as first seen"
    _note(tx, change, ChangeState(old.state), text, now)


def _note(tx: Connection, change: int, state: ChangeState, note: str, now: float) -> None:
    row = {"change_point_id": change, "at": now, "state": state, "note": note}
    tx.execute(insert(schema.change_point_event), [row])


def _last_confirmed(tx: Connection, series: int) -> int | None:
    """The first job after the last confirmed change; None for a series without times."""
    change, measurement = schema.change_point.c, schema.measurement.c
    is_its_result = (measurement.series_id == change.series_id) & (
        measurement.job_id == change.after_job
    )
    return tx.execute(
        select(change.after_job)
        .join(schema.measurement, is_its_result)
        .where(change.series_id == series, begins_level())
        .order_by(measurement.measured_at.desc(), measurement.job_id.desc())
        .limit(1)
    ).scalar()


def _key(suspicion: Suspicion) -> Key:
    return suspicion.series, suspicion.after_job, str(suspicion.direction)


def _ids(tx: Connection, suspicions: Sequence[Suspicion]) -> dict[Key, int]:
    table = schema.change_point.c
    rows = tx.execute(
        select(table.id, table.series_id, table.after_job, table.direction).where(
            tuple_(table.series_id, table.after_job).in_(
                {(suspicion.series, suspicion.after_job) for suspicion in suspicions}
            )
        )
    )
    return {(row.series_id, row.after_job, row.direction): row.id for row in rows}


def _row(suspicion: Suspicion, known: dict[int, Origin], now: float) -> dict[str, Any]:
    if suspicion.after:
        known = known | {suspicion.after_job: suspicion.after}
    return {
        "series_id": suspicion.series,
        "method": suspicion.method,
        "direction": suspicion.direction,
        **_places(suspicion.before_job, suspicion.after_job, known),
        "found_at": now,
        "ratio": suspicion.ratio,
        "state": ChangeState.SUSPECTED,
        "cause": "",
    }


def _places(before_job: int, after_job: int, known: dict[int, Origin]) -> dict[str, Any]:
    values: dict[str, Any] = {"before_job": before_job, "after_job": after_job}
    for side, job in (("before", before_job), ("after", after_job)):
        origin = asdict(known.get(job, Origin()))
        values |= {f"{side}_{name}": value for name, value in origin.items()}
    return values
