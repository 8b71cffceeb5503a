"""From new results to regressions, in transactions of bounded size: every host takes these steps.

`vkbench run` and `vkbench import` call `detect` at their end, the scheduler at each turn. Screening
needs scipy and ruptures, which worker hosts do not install: there, results are only placed in their
series, and the host that imports them screens them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import count, islice

from sqlalchemy import Connection, func, select

from vkbench_db import schema
from vkbench_db.batches import batches
from vkbench_db.database import Database, watch_alone
from vkbench_detection.changes.change_point import Method
from vkbench_detection.changes.decisions import Suspicion
from vkbench_detection.changes.questions import undecided_directions
from vkbench_detection.changes.transitions import apply, suspect
from vkbench_detection.compare.baselines import departures, last_references
from vkbench_detection.confirm.endings import undecidable
from vkbench_detection.find import decay, history
from vkbench_detection.find.kin import judge_young
from vkbench_detection.find.screening import behind, screen
from vkbench_detection.regress import recoveries, regressions
from vkbench_detection.regress.grouping import ungrouped_changes
from vkbench_detection.series import calibrations, profiles
from vkbench_detection.series.placing import Placed, is_fresh, place
from vkbench_detection.statistics.screen import Direction
from vkbench_detection.tune import sweeps

SCREENED = 200  # series of a transaction
SCANNED = 20  # series of a transaction: SQLite has no other writer meanwhile, some 10 ms each
PACKAGES = ("scipy", "ruptures")  # extra `detection`
MOST_BATCHES = 200  # of jobs placed in a turn, before those placed so far are screened


@dataclass(frozen=True, kw_only=True)
class Detected:
    """What detection made of new results."""

    jobs: int = 0
    series: frozenset[int] = frozenset()  # with new results
    suspected: tuple[int, ...] = ()  # change points of times
    verdicts: tuple[int, ...] = ()  # change points of wrong results and failing cases
    suspects: tuple[int, ...] = ()  # jobs that were faster than their device can be
    opened: tuple[int, ...] = ()  # regressions, improvements too
    is_unscreened: bool = False  # some series have earlier results, and nothing here compares them


def is_installed() -> bool:
    """Whether this host has the packages that screening needs."""
    return not _list_missing_packages()


def require() -> None:
    """Raise ModuleNotFoundError where a package is missing, before work that would need it."""
    for name in _list_missing_packages():
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _list_missing_packages() -> list[str]:
    return [name for name in PACKAGES if not find_spec(name)]


def detect(database: Database, now: float, *, all_at_once: bool = False) -> Detected:
    """Place and screen new results, and group the changes that are confirmed.

    With `all_at_once` the histories of the touched series are cut as well, as after an import.
    """
    with database.reading() as tx:
        if not is_fresh(tx):
            return Detected()
    with database.transaction() as tx:
        calibrations.settle(tx, now)  # first: placing compares results with them
        sweeps.settle(tx)
    placed = _place(database, now, None if all_at_once else MOST_BATCHES)
    touched = placed.series
    detected = Detected(jobs=placed.jobs, series=touched, suspects=placed.suspects)
    if not is_installed():
        return replace(detected, is_unscreened=_have_earlier_results(database, touched))
    suspected = _screen(database, touched, now)
    if all_at_once:
        scan(database, touched, now)
    opened = conclude(database, now)
    return replace(detected, suspected=tuple(suspected), verdicts=placed.changes, opened=opened)


def catch_up(database: Database, now: float) -> list[int]:
    """Finish screening and grouping that an earlier process left undone; return new changes.

    `detect` screens in a later transaction what it placed in an earlier one: a scheduler that is
    killed between them leaves results that no other step screens.
    """
    with database.reading() as tx:
        left, is_ungrouped = behind(tx), bool(ungrouped_changes(tx))
    suspected = _screen(database, left, now)
    if left or is_ungrouped:
        conclude(database, now)
    return suspected


def scan(
    database: Database,
    series: Iterable[int],
    now: float,
    over: Callable[[Sequence[int]], Iterable[int]] = iter,
) -> list[int]:
    """Look for level shifts in whole series; return changes that are new, or decided now.

    `over` counts the series, for whoever waits, as they are taken.
    """
    touched: list[int] = []
    for batch in batches(over(sorted(set(series))), SCANNED):
        with database.transaction() as tx:
            touched += history.scan(tx, batch, now)
            touched += decay.look(tx, batch, last_references(tx), now)
            profiles.refresh(tx, batch)
        database.let_others_in()
    return touched


def conclude(database: Database, now: float) -> tuple[int, ...]:
    """Group confirmed changes, end what is over; return the new regressions."""
    with database.transaction() as tx:
        watch_alone(tx)
        apply(tx, undecidable(tx, now), now)
        grouped = regressions.group(tx, now)
    with database.transaction() as tx:
        recoveries.settle(tx, now)
    return grouped.opened


def _place(database: Database, now: float, most: int | None) -> Placed:
    so_far = Placed()
    for _ in islice(count(), most):
        with database.transaction() as tx:
            placed = place(tx, now)
        if not placed.jobs:
            break
        database.let_others_in()
        so_far = Placed(
            jobs=so_far.jobs + placed.jobs,
            series=so_far.series | placed.series,
            suspects=(*so_far.suspects, *placed.suspects),
            changes=(*so_far.changes, *placed.changes),
        )
    return so_far


def _have_earlier_results(database: Database, series: Iterable[int]) -> bool:
    """Whether any of these series has a result before its newest one."""
    number = schema.measurement.c.series_id
    several = select(number).group_by(number).having(func.count() > 1).limit(1)
    with database.reading() as tx:
        return any(
            tx.execute(several.where(number.in_(batch))).first()
            for batch in batches(sorted(series), SCREENED)
        )


def _screen(database: Database, series: Iterable[int], now: float) -> list[int]:
    suspected: list[int] = []
    for batch in batches(sorted(series), SCREENED):
        with database.transaction() as tx:
            watch_alone(tx)
            suspected += screen(tx, batch, now)
            suspected += _depart(tx, batch, now)
            suspected += judge_young(tx, batch, now)
        database.let_others_in()
    return suspected


def _depart(tx: Connection, series: Sequence[int], now: float) -> list[int]:
    """Suspect series with too few results for the screen that differ from a baseline."""
    unlike = departures(tx, series)
    known = undecided_directions(tx, {suspicion.series for suspicion in unlike})
    new_suspicions = [
        Suspicion(
            series=suspicion.series,
            method=Method.BASELINE,
            direction=Direction.SLOWER if suspicion.ratio.ratio > 1 else Direction.FASTER,
            before_job=suspicion.before_job,
            after_job=suspicion.after_job,
            ratio=suspicion.ratio.ratio,
            note=f"{suspicion.ratio.ratio:.4f} of baseline {suspicion.baseline}",
        )
        for suspicion in unlike
    ]
    new = [
        suspicion
        for suspicion in new_suspicions
        if (suspicion.series, str(suspicion.direction)) not in known
    ]
    return suspect(tx, new, now)
