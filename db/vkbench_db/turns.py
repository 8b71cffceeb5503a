"""Which suspicions are measured again next: a few of each device, and of a device's shift a sample.

A host under load slows down everything that runs on it. Where many series of a device are suspected
in one direction and no kernel is to blame, that is one event: a sample of them is measured again,
and if it agrees, the others are what it is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, select

from vkbench_db import models, screening
from vkbench_db.change_points import DECIDED, Finding, Standing, settle
from vkbench_db.confirmations import Waiting

MOST_RUNNING = 8  # confirmations of a device at a time
EVENT = 16  # suspicions of a device and direction that are one event
SAMPLE = 8  # of them that are measured again
AGREEING = 0.75  # of a sample that speaks for all
EVENT_SECONDS = 86_400.0  # suspicions of so long are one event

Key = tuple[int, str, tuple[str, str]]  # device, direction, environments before and after


def choose(
    tx: Connection, waiting: Sequence[Waiting], busy: Counter[int], now: float
) -> list[Waiting]:
    """The next to be measured; `busy` is how many confirmations run on each device."""
    chosen = [each for each in waiting if each.is_new_kernel]
    for key, group in _events(waiting).items():
        left = _settled_by_sample(tx, key, group, now)
        chosen += left if len(group) < EVENT else _sample(left)
    return _bounded(sorted(chosen, key=lambda each: each.change), busy)


def _events(waiting: Iterable[Waiting]) -> dict[Key, list[Waiting]]:
    events: dict[Key, list[Waiting]] = defaultdict(list)
    for each in waiting:
        if not each.is_new_kernel:
            events[each.device_id, each.direction, each.environments].append(each)
    return events


def _settled_by_sample(tx: Connection, key: Key, group: list[Waiting], now: float) -> list[Waiting]:
    """Those of an event that its sample says nothing of: all of them, or none."""
    measured = _measured(tx, key, now)
    if len(group) < EVENT - SAMPLE or measured.total() < SAMPLE:
        return group
    (state, cause), count = measured.most_common(1)[0]
    if count < AGREEING * measured.total():
        return group
    text = f"as {count} of {measured.total()} like it on this device, which were measured again"
    for each in group:
        settle(tx, each.change, Finding(state=Standing(state), note=text, cause=cause), now)
        if state != Standing.CONFIRMED:
            screening.dismiss(tx, each.series)
    _restart(tx, [each.change for each in group] if state == Standing.CONFIRMED else [])
    return []


def _measured(tx: Connection, key: Key, now: float) -> Counter[tuple[str, str]]:
    """What became of suspicions of an event that were measured again, by state and cause."""
    device, direction, (before, after) = key
    change, series, done = models.ChangePoint, models.Series, models.Confirmation
    rows = tx.execute(
        select(change.id, change.state, change.cause)
        .join(series, series.id == change.series_id)
        .join(done, done.change_point_id == change.id)
        .where(
            *(series.device_id == device, change.direction == direction),
            *(change.before_environment == before, change.after_environment == after),
            *(change.before_kernel == change.after_kernel, change.state.in_(DECIDED)),
            done.finished_at >= now - EVENT_SECONDS,
        )
    )
    return Counter((row.state, row.cause) for row in rows)


def _restart(tx: Connection, changes: Sequence[int]) -> None:
    change = models.ChangePoint
    rows = tx.execute(select(change.series_id, change.after_job).where(change.id.in_(changes)))
    for row in rows.all():
        screening.restart(tx, row.series_id, row.after_job)


def _sample(group: Sequence[Waiting]) -> list[Waiting]:
    """A few of them, evenly: neighbours are of one family."""
    step = max(1, len(group) // SAMPLE)
    return list(group[::step][:SAMPLE])


def _bounded(chosen: Iterable[Waiting], busy: Counter[int]) -> list[Waiting]:
    started: Counter[int] = Counter(busy)
    found = []
    for each in chosen:
        if started[each.device_id] < MOST_RUNNING:
            started[each.device_id] += 1
            found.append(each)
    return found
