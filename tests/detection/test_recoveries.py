"""What makes a regression fixed: changes of its own cause, not whatever else became faster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from databases import Lab, one_engine
from paired_nights import FIRST, SECOND, Nights, bundle, rows
from planted_history import BEGAN, NIGHT, Plan, Step, file_lines
from vkbench.device import Environment
from vkbench_db.database import Database
from vkbench_db.transfer.exchange import import_lines
from vkbench_db.work import store
from vkbench_detection.regress.inbox import regressions
from vkbench_detection.steps import conclude, detect

THIRD = bundle("third")
STATES = "SELECT cause, direction, state FROM regression ORDER BY id"
LATER = BEGAN + 100 * NIGHT


def ends(database: Database, *steps: Step) -> list[tuple[str, str, str]]:
    """Cause, direction and state of each regression of one case, judged by history alone."""
    plan = Plan(cases=1, runs=90, steps=steps, metrics=("hot",))
    with database.transaction() as tx:
        import_lines(tx, file_lines(plan), LATER)
    detect(database, LATER, all_at_once=True)
    conclude(database, LATER)  # a fix is verified at the next turn
    with database.reading() as tx:
        found = regressions(tx)
    return sorted((row.cause, row.direction, row.state) for row in found)


def slower(run: int, factor: float, cause: str, until: int = 10**9) -> Step:
    return Step(case=0, run=run, factor=factor, cause=cause, until=until)


@one_engine
def test_a_faster_driver_does_not_fix_a_kernel(database: Database) -> None:
    found = ends(database, slower(30, 1.06, "kernel"), slower(60, 0.96, "environment"))
    assert found == [("environment", "faster", "open"), ("kernel", "slower", "open")]


@one_engine
def test_the_kernel_is_fixed_though_a_driver_came_between(database: Database) -> None:
    steps = (slower(30, 1.08, "kernel", until=75), slower(50, 1.08, "environment"))
    assert ("kernel", "slower", "verified") in ends(database, *steps)


@one_engine
def test_a_driver_that_is_taken_back_is_fixed(database: Database) -> None:
    assert ("environment", "slower", "verified") in ends(
        database, slower(30, 1.08, "environment", until=60)
    )


def test_kernel_and_driver_that_are_taken_back_at_once_are_fixed(database: Database) -> None:
    assert ("unknown", "slower", "verified") in ends(
        database, slower(30, 1.08, "unknown", until=60)
    )


@one_engine
@pytest.mark.parametrize(
    ("cause", "state"), [("kernel", "verified"), ("environment", "open"), ("host", "open")]
)
def test_a_kernel_is_fixed_by_kernels_alone(database: Database, cause: str, state: str) -> None:
    steps = (slower(30, 1.08, "kernel"), slower(60, 1 / 1.08, cause))
    assert ("kernel", "slower", state) in ends(database, *steps)


@one_engine
def test_what_comes_after_a_fix_is_another_regression(database: Database) -> None:
    """The first one stays fixed, though the times are slow again."""
    steps = (slower(25, 1.08, "kernel", until=45), slower(65, 1.08, "kernel"))
    found = [each for each in ends(database, *steps) if each[1] == "slower"]
    assert found == [("kernel", "slower", "open"), ("kernel", "slower", "verified")]


@one_engine
def test_pairs_tell_that_a_driver_hides_a_kernel(lab: Lab, environment: Environment) -> None:
    """A kernel 8 % slower, then a driver 5 % faster, as the scheduler measures them."""
    with lab.database.transaction() as tx:
        for each in (FIRST, SECOND, THIRD):
            store.store_bundle(tx, each, lab.now)
    nights = Nights(lab, lab.add_device(), environment=environment)
    nights.pass_by(25)
    nights.bundle = SECOND.sha
    nights.pass_by(1, 1.08)
    nights.confirm(lambda sha: 1.08 if sha == SECOND.sha else 1.0)
    nights.pass_by(22, 1.08)
    nights.environment = replace(environment, driver_version="23.1")
    nights.last(1.08 * 0.95, lambda sha: 0.95 * (1.08 if sha == SECOND.sha else 1.0))
    assert rows(nights, STATES) == [("kernel", "slower", "open"), ("environment", "faster", "open")]
    nights.pass_by(22, 1.08 * 0.95)
    nights.bundle = THIRD.sha
    nights.pass_by(1, 0.95)
    nights.confirm(lambda sha: 0.95 * (1.08 if sha == SECOND.sha else 1.0))
    assert rows(nights, STATES)[0] == ("kernel", "slower", "fixed")
    nights.pass_by(5, 0.95)
    assert rows(nights, STATES)[0] == ("kernel", "slower", "verified")
