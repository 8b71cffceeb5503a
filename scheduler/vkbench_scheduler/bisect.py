"""Bisections: bundles held against the good one, by pairs, until one of them is the first bad one.

A round has as many bundles as there are identical devices, one on each. Bundles that nobody can
judge (they do not compile, fail, or stay ambiguous after all pairs) are passed over, as git does.
Everything is in the database: any process may take the next step, and several may try.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, log
from typing import Any

from sqlalchemy import Connection

from vkbench.errors import ServiceUnreachable
from vkbench.log import event
from vkbench_db import bisections
from vkbench_db.bisections import FAILED, FOUND, Bisection, Step
from vkbench_db.database import Database
from vkbench_db.pairs import PairResults, pair_results
from vkbench_db.statistics.pairs import LONG_LOOKS, Decision, Verdict, decide
from vkbench_db.statistics.screen import Direction
from vkbench_db.store import cancel
from vkbench_scheduler.pairs import more_pairs, submit_pairs
from vkbench_scheduler.search import Word, next_places, span, suspects

GOOD, BAD, WRONG, AMBIGUOUS = "good", "bad", "wrong", "ambiguous"
SHARE = (
    0.5  # of the whole change, in logarithms, makes a bundle bad: what little came before is not it
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the pairs of a step say."""

    verdict: str
    note: str = ""
    decision: Decision | None = None  # None of wrong results, and where nothing was measured


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
    """End a bisection; its jobs are cancelled."""
    with database.transaction() as tx:
        bisection = bisections.take(tx, number)
        if bisection:
            _end(tx, bisection, FAILED, f"stopped by {user}", now)


def words_of(bisection: Bisection) -> dict[int, Word]:
    """What is known of each bundle, for the search."""
    without = (place for place, each in enumerate(bisection.candidates) if not each.sha)
    whole = _whole(bisection)
    judged = (each for each in bisection.steps if each.verdict)
    return dict.fromkeys(without, Word.SKIPPED) | {
        each.position: _word(each, whole) for each in judged
    }


def judge(found: PairResults) -> Judgement | int:
    """What pairs say, or how many more they need; 0: wait for those that are under way."""
    if found.new_wrong:
        return Judgement(verdict=WRONG, note=found.new_wrong)
    if found.pending and not found.failed:
        return 0
    decision = decide(found.old, found.new, direction=Direction.SLOWER, looks=LONG_LOOKS)
    measured = decision if decision.pairs else None
    match decision.verdict:
        case Verdict.REGRESSED:
            return Judgement(verdict=BAD, decision=decision)
        case Verdict.SAME | Verdict.IMPROVED:
            return Judgement(verdict=GOOD, decision=decision)
    if found.failed or decision.is_final:
        why = found.failed or f"nothing certain after {decision.pairs} pairs"
        return Judgement(verdict=AMBIGUOUS, note=why, decision=measured)
    return decision.next_look - decision.pairs


def _advance(tx: Connection, bisection: Bisection, now: float) -> None:
    for each in _open(bisection):
        found = pair_results(tx, each.run)
        if found.old_wrong:
            _end(tx, bisection, FAILED, f"the good one is wrong itself: {found.old_wrong}", now)
            return
        _look_at(tx, bisection, each, found, now)
    bisection = bisections.find(tx, bisection.id)
    if _open(bisection):
        return
    trouble = _trouble(bisection)
    if trouble:
        _end(tx, bisection, FAILED, trouble, now)
    else:
        _search(tx, bisection, now)


def _open(bisection: Bisection) -> list[Step]:
    return [each for each in bisection.steps if not each.verdict]


def _look_at(
    tx: Connection, bisection: Bisection, asked: Step, found: PairResults, now: float
) -> None:
    """Settle a step, or ask for the pairs that it needs."""
    said = judge(found)
    if isinstance(said, int):
        if said:
            more_pairs(tx, asked.run, said)
            bisections.change_step(tx, bisection.id, asked.position, pairs=asked.pairs + said)
        return
    bisections.change_step(
        tx,
        bisection.id,
        asked.position,
        verdict=said.verdict,
        note=said.note,
        finished_at=now,
        **(_measured(said.decision) if said.decision else {}),
    )
    if found.pending:  # what is still to come changes nothing
        cancel(tx, asked.run, now)
    label = bisection.candidates[asked.position].label
    event(_log, "bisection_step", bisection=bisection.id, bundle=label, verdict=said.verdict)


def _measured(decision: Decision) -> Mapping[str, Any]:
    return {
        "pairs": decision.pairs,
        "ratio": decision.ratio,
        "low": decision.low if decision.low > 0 else None,
        "high": decision.high if isfinite(decision.high) else None,
        "p": decision.p,
    }


def _search(tx: Connection, bisection: Bisection, now: float) -> None:
    """Begin the next round, or end."""
    count, words = len(bisection.candidates), words_of(bisection)
    known = span(count, words)
    bisections.change(tx, bisection.id, low=known.low, high=known.high)
    places = next_places(count, words, len(bisection.devices))
    for place, device in zip(places, bisection.devices, strict=False):
        _begin(tx, bisection, place, device, now)
    if not places:
        _end(tx, bisection, FOUND, finding(bisection), now)


def _begin(tx: Connection, bisection: Bisection, place: int, device: str, now: float) -> None:
    pairs = LONG_LOOKS[0].pairs
    new = bisection.candidates[place]
    run = submit_pairs(
        tx,
        devices=[device],
        case=bisection.case,
        variant=bisection.variant,
        metric=bisection.metric,
        old=bisection.candidates[0].sha,
        new=new.sha,
        count=pairs,
        label=f"bisection {bisection.id}: {new.label}",
        tags={"bisection": bisection.id, "position": place},
        now=now,
        measure_seconds=bisection.measure_seconds,
    )
    bisections.add_step(tx, bisection.id, place, run, pairs, now)


def _end(tx: Connection, bisection: Bisection, state: str, note: str, now: float) -> None:
    for each in _open(bisection):
        cancel(tx, each.run, now)
    bisections.change(tx, bisection.id, state=state, note=note, finished_at=now)
    event(_log, "bisection_ended", bisection=bisection.id, state=state, note=note)


def _word(found: Step, whole: Step | None) -> Word:
    match found.verdict:
        case "good":
            return Word.GOOD
        case "ambiguous":
            return Word.SKIPPED
        case "wrong":
            return Word.BAD
    if whole and whole.verdict == WRONG:  # a wrong one is looked for, not a slow one
        return Word.GOOD
    if whole and whole.ratio and found.ratio:
        return Word.BAD if log(found.ratio) >= SHARE * log(whole.ratio) else Word.GOOD
    return Word.BAD


def _whole(bisection: Bisection) -> Step | None:
    """The step that holds the last bundle against the first one."""
    last = len(bisection.candidates) - 1
    return next((each for each in bisection.steps if each.position == last), None)


def _trouble(bisection: Bisection) -> str:
    """Why there is nothing to search for; "" where there is."""
    whole = _whole(bisection)
    if whole is None or whole.verdict in (BAD, WRONG):
        return ""
    last = bisection.candidates[-1].label
    if whole.verdict == GOOD:
        return f"{last} is no slower than the good one{_evidence(whole)}"
    return f"nobody can tell whether {last} is worse than the good one: {whole.note}"


def finding(bisection: Bisection) -> str:
    """What a search that is over found, with its evidence."""
    *doubted, first = suspects(len(bisection.candidates), words_of(bisection))
    judged = next(each for each in bisection.steps if each.position == first)
    label = bisection.candidates[first].label
    how = f": wrong: {judged.note}" if judged.verdict == WRONG else _evidence(judged)
    if not doubted:
        return f"{label} is the first bad one{how}"
    others = ", ".join(bisection.candidates[place].label for place in doubted)
    return f"{label} is bad{how}; the first bad one may also be {others}, which cannot be judged"


def _evidence(judged: Step) -> str:
    if judged.ratio is None or judged.p is None:
        return ""
    bounds = f" ({judged.low:.4f} to {judged.high:.4f})" if judged.low and judged.high else ""
    return f": ratio {judged.ratio:.4f}{bounds}, p {judged.p:.2g}, {judged.pairs} pairs"
