"""Bisections: bundles held against the good one, by pairs, until one of them is the first bad one.

`vkbench_detection.bisect` says what pairs mean and where to look next; this module makes the runs
and stores the steps. A round has as many bundles as there are identical devices, one on each.
Everything is in the database: any process may take the next step, and several may try.
"""

from __future__ import annotations

import logging

from sqlalchemy import Connection

from vkbench.errors import ServiceUnreachable
from vkbench.process.log import event
from vkbench.run import Purpose, RunKind, RunWords
from vkbench_db.database import Database
from vkbench_db.upkeep import bisections
from vkbench_db.upkeep.bisections import FAILED, Bisection, BisectionStep
from vkbench_db.work.store import cancel
from vkbench_detection.bisect import course
from vkbench_detection.bisect.course import Ending, open_steps
from vkbench_detection.bisect.verdicts import StepJudgement, judge_step
from vkbench_detection.confirm.pairs import PairResults, pair_results
from vkbench_detection.statistics.pairs import LONG_LOOKS
from vkbench_scheduler.planning.pairs import PairPlan, more_pairs, submit_pairs

_log = logging.getLogger(__name__)


def step(database: Database, now: float) -> None:
    """Take every running bisection as far as its results allow."""
    with database.reading() as tx:
        waiting = bisections.running(tx)
    for number in waiting:
        try:
            step_one(database, number, now)
        except ServiceUnreachable:
            raise  # the database is away, for all of them
        except Exception:
            _log.exception("bisection_failed")


def step_one(database: Database, number: int, now: float) -> None:
    """Take one bisection as far as its results allow, unless another process is about to."""
    with database.transaction() as tx:
        bisection = bisections.take(tx, number)
        if bisection:
            _advance(tx, bisection, now)


def stop(database: Database, number: int, user: str, now: float) -> None:
    """End a bisection and cancel its jobs."""
    with database.transaction() as tx:
        bisection = bisections.take(tx, number)
        if bisection:
            _end(tx, bisection, Ending(state=FAILED, note=f"stopped by {user}"), now)


def _advance(tx: Connection, bisection: Bisection, now: float) -> None:
    for step in open_steps(bisection):
        results = pair_results(tx, step.run)
        fault = course.fault(results)
        if fault:
            _end(tx, bisection, fault, now)
            return
        _look_at(tx, bisection, step, results, now)
    bisection = bisections.find(tx, bisection.id)
    if not open_steps(bisection):
        _go_on(tx, bisection, now)


def _look_at(
    tx: Connection, bisection: Bisection, step: BisectionStep, results: PairResults, now: float
) -> None:
    """Store the verdict on a step, or ask for the pairs that it needs."""
    judged = judge_step(
        results,
        step.pairs,
        least_ratio=course.least_ratio(bisection),
        seeks_wrong=course.seeks_wrong(bisection),
    )
    if isinstance(judged, StepJudgement):
        _settle(tx, bisection, step, judged, now)
        if results.pending:  # what is still to come changes nothing
            cancel(tx, step.run, now)
    elif judged:
        more_pairs(tx, step.run, judged)
        bisections.change_step(tx, bisection.id, step.position, pairs=step.pairs + judged)


def _settle(
    tx: Connection, bisection: Bisection, step: BisectionStep, judged: StepJudgement, now: float
) -> None:
    bisections.change_step(
        tx,
        bisection.id,
        step.position,
        verdict=judged.verdict,
        note=judged.note,
        finished_at=now,
        **judged.figures,
    )
    label = bisection.candidates[step.position].label
    event(_log, "bisection_step", bisection=bisection.id, bundle=label, verdict=judged.verdict)


def _go_on(tx: Connection, bisection: Bisection, now: float) -> None:
    """Begin the next round of a bisection, or end it."""
    trouble = course.trouble(bisection)
    if trouble:
        _end(tx, bisection, trouble, now)
        return
    known = course.next_round(bisection)
    bisections.change(tx, bisection.id, low=known.low, high=known.high)
    made = [place for place in known.places if bisection.candidates[place].is_made]
    for place, device in zip(made, bisection.devices, strict=False):
        _begin(tx, bisection, place, device, now)
    if not known.places:
        _end(tx, bisection, course.end_with_culprit(bisection), now)


def _begin(tx: Connection, bisection: Bisection, place: int, device: str, now: float) -> None:
    pairs = LONG_LOOKS[0].pairs
    new = bisection.candidates[place]
    run = submit_pairs(
        tx,
        PairPlan(
            case=bisection.case,
            variant=bisection.variant,
            metric=bisection.metric,
            old=bisection.candidates[0].arm,
            new=new.arm,
            measure_seconds=bisection.measure_seconds,
        ),
        devices=[device],
        count=pairs,
        now=now,
        words=RunWords(
            label=f"bisection {bisection.id}: {new.label}",
            purpose=Purpose(
                kind=RunKind.BISECTION, about={"bisection": bisection.id, "position": place}
            ),
        ),
    )
    bisections.add_step(tx, bisection.id, place, run, pairs, now)


def _end(tx: Connection, bisection: Bisection, ending: Ending, now: float) -> None:
    for step in open_steps(bisection):
        cancel(tx, step.run, now)
    bisections.change(tx, bisection.id, state=ending.state, note=ending.note, finished_at=now)
    event(_log, "bisection_ended", bisection=bisection.id, state=ending.state, note=ending.note)
