"""From new results to regressions, in transactions of bounded size: what every host does alike.

`vkbench run` and `vkbench import` call `detect` at their end, the scheduler at each turn. Screening
needs scipy and ruptures, which worker hosts do not install: there, results are only placed in their
series, and the host that imports them screens them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count, islice

from sqlalchemy import Connection, func, select

from vkbench_db import calibrations, history, models, profiles, recoveries, regressions
from vkbench_db.baselines import departures
from vkbench_db.batches import batches
from vkbench_db.change_points import Method, Suspicion, suspect, undecided
from vkbench_db.database import Database, watch_alone
from vkbench_db.grouping import ungrouped
from vkbench_db.placing import is_fresh, place
from vkbench_db.screening import behind, screen
from vkbench_db.statistics.screen import Direction

SCREENED = 200  # series of a transaction
SCANNED = 20  # nobody else writes to SQLite meanwhile: some 10 ms each
PACKAGES = ("scipy", "ruptures")  # extra `detection`
MOST_BATCHES = 200  # of jobs placed in a turn, before what came so far is screened


@dataclass(frozen=True, kw_only=True)
class Detected:
    """What new results brought."""

    jobs: int = 0
    series: frozenset[int] = frozenset()  # with new results
    suspected: tuple[int, ...] = ()  # change points of times
    wrong: tuple[int, ...] = ()  # and of verdicts
    opened: tuple[int, ...] = ()  # regressions, improvements too
    is_unscreened: bool = False  # some series have earlier results, and nothing here compares them


def is_installed() -> bool:
    """Whether this host has the packages that screening needs."""
    return not _missing()


def require() -> None:
    """Raise ModuleNotFoundError where a package is missing, before work that would need it."""
    for name in _missing():
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _missing() -> list[str]:
    return [name for name in PACKAGES if not find_spec(name)]


def detect(database: Database, now: float, *, all_at_once: bool = False) -> Detected:
    """Place and screen what came in, and group what is certain.

    With `all_at_once` the histories of the touched series are cut as well, as after an import.
    """
    with database.reading() as tx:
        if not is_fresh(tx):
            return Detected()
    with database.transaction() as tx:
        calibrations.settle(tx, now)  # first: what is placed is held against them
    jobs, touched, wrong = _place(database, now, None if all_at_once else MOST_BATCHES)
    if not is_installed():
        waiting = _have_earlier_results(database, touched)
        return Detected(jobs=jobs, series=frozenset(touched), is_unscreened=waiting)
    suspected = _screen(database, touched, now)
    if all_at_once:
        scan(database, touched, now)
    opened = conclude(database, now)
    return Detected(
        jobs=jobs,
        series=frozenset(touched),
        suspected=tuple(suspected),
        wrong=tuple(wrong),
        opened=opened,
    )


def catch_up(database: Database, now: float) -> list[int]:
    """Do what another began and did not end, such as a scheduler that was killed; says new changes.

    Between two transactions of `detect` nothing else knows of what the first one placed.
    """
    with database.reading() as tx:
        left, is_ungrouped = behind(tx), bool(ungrouped(tx))
    suspected = _screen(database, left, now)
    if left or is_ungrouped:
        conclude(database, now)
    return suspected


def scan(database: Database, series: Iterable[int], now: float) -> list[int]:
    """Cut the histories of series; says which change points are new, or decided now."""
    touched: list[int] = []
    for batch in batches(sorted(set(series)), SCANNED):
        with database.transaction() as tx:
            touched += history.scan(tx, batch, now)
            profiles.refresh(tx, batch)
    return touched


def conclude(database: Database, now: float) -> tuple[int, ...]:
    """Group confirmed changes and settle what is over; says which regressions are new."""
    with database.transaction() as tx:
        grouped = regressions.group(tx, now)
    with database.transaction() as tx:
        recoveries.settle(tx, now)
    return grouped.opened


def _place(database: Database, now: float, most: int | None) -> tuple[int, set[int], list[int]]:
    jobs, touched, wrong = 0, set[int](), list[int]()
    for _ in islice(count(), most):
        with database.transaction() as tx:
            placed = place(tx, now)
        if not placed.jobs:
            break
        jobs += placed.jobs
        touched |= placed.series
        wrong += placed.changes
    return jobs, touched, wrong


def _have_earlier_results(database: Database, series: Iterable[int]) -> bool:
    """Whether any of these series has a result before its newest one."""
    number = models.Measurement.series_id
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
    return suspected


def _depart(tx: Connection, series: Sequence[int], now: float) -> list[int]:
    """Suspect series that are too young for the screen, and not what a baseline has."""
    found = departures(tx, series)
    known = undecided(tx, {each.series for each in found})
    wanted = [
        Suspicion(
            series=each.series,
            method=Method.BASELINE,
            direction=Direction.SLOWER if each.ratio.ratio > 1 else Direction.FASTER,
            before_job=each.before_job,
            after_job=each.after_job,
            ratio=each.ratio.ratio,
            note=f"{each.ratio.ratio:.4f} of baseline {each.baseline}",
        )
        for each in found
    ]
    new = [each for each in wanted if (each.series, str(each.direction)) not in known]
    return suspect(tx, new, now)
