"""Which suspicions are measured again next: a few of each device, and a sample of a device's shift.

A host under load slows down everything that runs on it. Where many series of a device are suspected
in one direction and no kernel is to blame, that is one event: a sample of them is measured again,
and if the sample agrees, the others are decided like it. One that is suspected once more is not
dismissed unmeasured: its own results keep its shift.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlalchemy import Connection, select

from vkbench_db import schema
from vkbench_detection.changes.decisions import Cause, Conclusion, Decision
from vkbench_detection.changes.states import DECIDED, ChangeState
from vkbench_detection.confirm.confirmations import running_counts
from vkbench_detection.confirm.levels import before_change
from vkbench_detection.confirm.remeasured import concluded_beside_series, pairs_decide_alone
from vkbench_detection.confirm.waiting import Waiting, waiting

MOST_RUNNING = 8  # confirmations of a device at a time
EVENT = 16  # suspicions of a device and direction that are one event
SAMPLE = 8  # of them that are measured again
AGREEING = 0.75  # of a sample that decides for all
EVENT_SECONDS = 86_400.0  # suspicions of so long are one event

Only: TypeAlias = Callable[[Waiting], bool]
Key: TypeAlias = tuple[int, str, tuple[str, str]]  # device, direction, environments around it


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What is measured again next, and what is decided without it."""

    measured: Sequence[Waiting]
    decisions: Sequence[Decision]
    suspected: int  # how many could be measured


def next_turn(
    tx: Connection, devices: set[int], now: float, only: Only = lambda suspicion: True
) -> Turn:
    """What to measure again on these devices now, of the suspicions that `only` admits.

    A suspicion whose bundle is not kept becomes ambiguous: the pass over the history decides it.
    """
    suspected = waiting(tx, devices)
    decisions = [_without_bundle(suspicion) for suspicion in suspected if suspicion.arms is None]
    able = [suspicion for suspicion in suspected if suspicion.arms is not None and only(suspicion)]
    chosen = [suspicion for suspicion in able if suspicion.is_new_kernel]
    for key, group in _events(able).items():
        conclusion = _conclude_by_sample(tx, key, len(group), now)
        if conclusion:
            theirs = [suspicion for suspicion in group if _is_like(suspicion, conclusion)]
            decisions += [Decision(change=point.change, conclusion=conclusion) for point in theirs]
            chosen += [suspicion for suspicion in group if suspicion not in theirs]
        else:
            chosen += group if len(group) < EVENT else _sample(group)
    ordered = sorted(chosen, key=lambda suspicion: suspicion.change)
    measured, doubted = _bound_running(tx, ordered, running_counts(tx))
    return Turn(measured=measured, decisions=[*decisions, *doubted], suspected=len(able))


def _without_bundle(suspicion: Waiting) -> Decision:
    text = "its bundle is not kept: only more results can tell"
    if suspicion.point.is_of_build:
        text = "the files of its builds are not known: pairs of both cannot be measured"
    return Decision(
        change=suspicion.change, conclusion=Conclusion(state=ChangeState.AMBIGUOUS, note=text)
    )


def _is_like(suspicion: Waiting, conclusion: Conclusion) -> bool:
    """Whether the measured sample speaks for a suspicion."""
    return not suspicion.is_again or conclusion.state != ChangeState.DISMISSED


def _events(suspected: Iterable[Waiting]) -> Mapping[Key, list[Waiting]]:
    events: dict[Key, list[Waiting]] = defaultdict(list)
    for suspicion in suspected:
        if not suspicion.is_new_kernel:
            events[suspicion.device_id, suspicion.direction, suspicion.environments].append(
                suspicion
            )
    return events


def _conclude_by_sample(tx: Connection, key: Key, count: int, now: float) -> Conclusion | None:
    """What the measured sample of an event says of the others, if it is large and agrees."""
    sample = _count_decisions(tx, key, now)
    if count < EVENT - SAMPLE or sample.total() < SAMPLE:
        return None
    (state, cause), agreeing = sample.most_common(1)[0]
    if agreeing < AGREEING * sample.total():
        return None
    return Conclusion(
        state=ChangeState(state),
        note=f"as {agreeing} of {sample.total()} like it on this device, which were measured again",
        cause=Cause(cause) if cause else None,
    )


def _count_decisions(tx: Connection, key: Key, now: float) -> Counter[tuple[str, str]]:
    """How the suspicions of an event that were measured again were decided, by state and cause."""
    device, direction, (before, after) = key
    change, series, done = schema.change_point.c, schema.series.c, schema.confirmation.c
    rows = tx.execute(
        select(change.id, change.state, change.cause)
        .distinct()
        .join(schema.series, series.id == change.series_id)
        .join(schema.confirmation, done.change_point_id == change.id)
        .where(
            *(series.device_id == device, change.direction == direction),
            *(change.before_environment == before, change.after_environment == after),
            *(change.before_kernel == change.after_kernel, change.state.in_(DECIDED)),
            done.finished_at >= now - EVENT_SECONDS,
        )
    )
    return Counter((row.state, row.cause) for row in rows)


def _sample(group: Sequence[Waiting]) -> list[Waiting]:
    """A few of a group, evenly: neighbours are of one family."""
    step = max(1, len(group) // SAMPLE)
    return list(group[::step][:SAMPLE])


def _bound_running(
    tx: Connection, chosen: Iterable[Waiting], running: Mapping[int, int]
) -> tuple[list[Waiting], list[Decision]]:
    """The first that pairs can decide, so that no device has more than MOST_RUNNING at a time.

    Those among them that no pairs can decide are doubted.
    """
    counts = Counter(running)
    measured, doubted = [], []
    for suspicion in chosen:
        if counts[suspicion.device_id] >= MOST_RUNNING:
            continue
        conclusion = _conclusion_without_pairs(tx, suspicion)
        if conclusion:
            doubted.append(Decision(change=suspicion.change, conclusion=conclusion))
        else:
            counts[suspicion.device_id] += 1
            measured.append(suspicion)
    return measured, doubted


def _conclusion_without_pairs(tx: Connection, suspicion: Waiting) -> Conclusion | None:
    """What is concluded of a suspicion that its pairs, of one bundle, could not make plain."""
    if suspicion.arms is None or not suspicion.arms.are_same or pairs_decide_alone(suspicion.point):
        return None
    return concluded_beside_series(suspicion.point, before_change(tx, suspicion.point))
