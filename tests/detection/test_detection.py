"""Histories with planted changes: all of them are found, with their causes, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from sqlalchemy import text

from databases import one_engine
from planted_history import BEGAN, NIGHT, Plan, Step, case_name, file_lines
from vkbench_db.database import Database
from vkbench_db.transfer.exchange import import_lines
from vkbench_detection.steps import detect, scan

LATER = BEGAN + 400 * NIGHT


def take(database: Database, lines: Iterator[str]) -> None:
    with database.transaction() as tx:
        import_lines(tx, lines, LATER)
    detect(database, LATER, all_at_once=True)


def rows(database: Database, question: str) -> list[tuple[Any, ...]]:
    with database.reading() as tx:
        return [tuple(row) for row in tx.execute(text(question))]


def verdicts(database: Database) -> set[tuple[object, ...]]:
    """Case, device, metric, direction, cause, label of the first bad run."""
    question = """
        SELECT kernel_case.name, host.name, series.metric, change_point.direction,
               change_point.cause, run.label
        FROM change_point JOIN series ON series.id = change_point.series_id
        JOIN kernel_case ON kernel_case.id = series.case_id
        JOIN device ON device.id = series.device_id JOIN host ON host.id = device.host_id
        JOIN job ON job.id = change_point.after_job JOIN run ON run.id = job.run_id
        WHERE change_point.state = 'confirmed'
    """
    return set(rows(database, question))


def expected(steps: Sequence[Step], metrics: Sequence[str]) -> set[tuple[object, ...]]:
    return {
        (
            case_name(step.case),
            f"lab{step.device}",
            metric,
            "slower" if step.factor > 1 else "faster",
            step.cause,
            f"night {step.run}",
        )
        for step in steps
        for metric in metrics
    }


STEPS = (
    Step(case=0, run=30, factor=1.06, cause="kernel"),
    Step(case=1, run=35, factor=0.94, cause="kernel"),
    Step(case=2, run=40, factor=1.1, cause="environment"),
    Step(case=3, run=40, factor=1.08, cause="environment"),
    Step(case=4, run=25, factor=1.12, cause="host", device=1),
    Step(case=5, run=45, factor=1.1, cause="unknown", device=1),
)
PLAN = Plan(cases=8, runs=60, devices=2, steps=STEPS, harmless={7: 20}, metrics=("hot",))


def test_planted_changes_are_found(database: Database) -> None:
    take(database, file_lines(PLAN))
    found = verdicts(database)
    host = {change for change in found if change[4] == "host"}
    assert found - host == expected([s for s in STEPS if s.cause != "host"], ["hot"])
    # nothing that moved says where it began: within two results
    [(case, device, _, direction, _, night)] = host
    assert (case, device, direction) == (case_name(4), "lab1", "slower")
    assert abs(int(str(night).split()[1]) - 25) <= 2
    question = "SELECT direction, cause, count(*) FROM regression GROUP BY 1, 2 ORDER BY 1, 2"
    assert rows(database, question) == [
        ("faster", "kernel", 1),
        ("slower", "environment", 1),  # of two kernels
        ("slower", "host", 1),
        ("slower", "kernel", 1),
        ("slower", "unknown", 1),
    ]


def test_twice_is_once(database: Database) -> None:
    take(database, file_lines(PLAN))
    tables = ("change_point", "change_point_event", "regression", "regression_event", "series")
    before = {table: rows(database, f"SELECT count(*) FROM {table}") for table in tables}
    take(database, file_lines(PLAN))
    everything = [int(str(row[0])) for row in rows(database, "SELECT id FROM series")]
    scan(database, everything, LATER)
    assert {table: rows(database, f"SELECT count(*) FROM {table}") for table in tables} == before


@one_engine
def test_what_comes_late_doubles_nothing(database: Database) -> None:
    """The second half of the nights first, then every other one, then the rest."""
    nights = range(PLAN.runs)
    for part in (nights[30:], nights[1:30:2], nights[0:30:2]):
        take(database, file_lines(PLAN, part))
    found = verdicts(database)
    hits = {change[:4] for change in found}
    assert hits == {change[:4] for change in expected(STEPS, ["hot"])}
    assert len(found) == len(STEPS)


def test_a_change_that_goes_is_fixed_and_verified(database: Database) -> None:
    step = Step(case=0, run=30, factor=1.1, cause="kernel", until=50)
    plan = Plan(cases=2, runs=70, steps=[step], metrics=("hot",))
    take(database, file_lines(plan, range(45)))
    assert rows(database, "SELECT state FROM regression WHERE direction = 'slower'") == [("open",)]
    take(database, file_lines(plan, range(45, 60)))
    take(database, file_lines(plan, range(60, 70)))
    question = """
        SELECT regression_event.state FROM regression_event
        JOIN regression ON regression.id = regression_event.regression_id
        WHERE direction = 'slower' ORDER BY regression_event.id
    """
    assert rows(database, question) == [("open",), ("fixed",), ("verified",)]
    faster = "SELECT direction, state FROM regression ORDER BY direction"
    assert rows(database, faster) == [("faster", "open"), ("slower", "verified")]


def test_wrong_is_wrong_however_fast(database: Database) -> None:
    """It is open at once, no improvement, fixed with the next right result, and then verified."""
    step = Step(case=1, run=25, factor=0.0, cause="kernel", until=28)
    plan = Plan(cases=2, runs=40, steps=[step], metrics=("hot",))
    take(database, file_lines(plan, range(27)))
    question = "SELECT direction, cause, state FROM regression"
    assert rows(database, question) == [("wrong", "kernel", "open")]
    take(database, file_lines(plan, range(27, 30)))
    assert rows(database, question) == [("wrong", "kernel", "fixed")]
    take(database, file_lines(plan, range(30, 40)))
    assert rows(database, question) == [("wrong", "kernel", "verified")]


@one_engine
@pytest.mark.parametrize("seed", range(3))
def test_noise_alone_is_nothing(database: Database, seed: int) -> None:
    take(database, file_lines(Plan(cases=4, runs=60, sigma=0.02, seed=seed)))
    assert verdicts(database) == set()
    assert rows(database, "SELECT count(*) FROM regression") == [(0,)]


def wandering(wander: float, factor: float, *, cause: str = "kernel", sigma: float = 0.002) -> Plan:
    """Two devices whose times come and go in waves, and a step late in their histories."""
    steps = [
        Step(case=case, run=126, factor=factor, cause=cause, device=device)
        for device in range(2)
        for case in range(2)
    ]
    return Plan(
        cases=2, runs=150, devices=2, sigma=sigma, wander=wander, steps=steps, metrics=("hot",)
    )


@one_engine
@pytest.mark.parametrize("wander", [0.005, 0.01, 0.02])
def test_a_step_in_a_slow_wave_is_found(database: Database, wander: float) -> None:
    """No worker can measure again: history alone decides, and names the kernel that moved."""
    plan = wandering(wander, 1.2)
    take(database, file_lines(plan))
    assert verdicts(database) == expected(plan.steps, ["hot"])
    assert rows(database, "SELECT direction, cause, state FROM regression") == [
        ("slower", "kernel", "open")
    ] * len(rows(database, "SELECT id FROM regression"))


@one_engine
def test_a_step_within_the_wander_is_never_dismissed(database: Database) -> None:
    """Of 4 % in waves of 2 % a history cannot tell: it is ambiguous, unless it is certain."""
    plan = wandering(0.02, 1.04)
    take(database, file_lines(plan))
    question = """
        SELECT series_id, change_point.state FROM change_point
        JOIN job ON job.id = change_point.after_job JOIN run ON run.id = job.run_id
        WHERE run.label = 'night 126' AND change_point.cause = 'kernel'
          AND direction = 'slower'
    """
    found = dict(rows(database, question))
    assert len(found) == 4
    assert set(found.values()) <= {"ambiguous", "confirmed"}


@one_engine
def test_waves_alone_are_nothing(database: Database) -> None:
    plan = Plan(cases=3, runs=150, sigma=0.002, wander=0.02, metrics=("hot",), harmless={2: 60})
    take(database, file_lines(plan))
    states = "SELECT DISTINCT state FROM change_point WHERE state <> 'dismissed'"
    assert rows(database, states) == []
    assert rows(database, "SELECT count(*) FROM regression") == [(0,)]


@one_engine
def test_nothing_is_dismissed_by_a_p_that_says_the_opposite(database: Database) -> None:
    """What a dismissal says of chance takes the memory of its series into account."""
    plan = Plan(cases=4, runs=150, sigma=0.002, wander=0.02, metrics=("hot",), seed=2)
    take(database, file_lines(plan))
    sure = "SELECT count(*) FROM change_point WHERE state = 'dismissed' AND p < 1e-4"
    assert rows(database, sure) == [(0,)]


UPDATED = (
    "mul_mat_vec, softmax and 1 more {change} on Planted 9000 of lab0 since driver 550.1 (8 Nov)"
)


def test_one_driver_that_crashes_is_one_regression(database: Database) -> None:
    """19 of 60 cases crash with it, one after the other, and pass with the next one."""
    steps = [
        Step(case=case, run=30, factor=-1.0, cause="environment", until=33) for case in range(19)
    ]
    plan = Plan(cases=60, runs=40, steps=steps, metrics=("hot",))
    take(database, file_lines(plan, range(32)))
    question = """
        SELECT title, direction, cause, state, count(*) FROM v_regressions
        GROUP BY title, direction, cause, state
    """
    title = UPDATED.format(change="failed")
    assert rows(database, question) == [(title, "failed", "environment", "open", 19)]
    take(database, file_lines(plan, range(32, 34)))
    assert rows(database, question) == [(title, "failed", "environment", "fixed", 19)]
    take(database, file_lines(plan, range(34, 40)))
    assert rows(database, question) == [(title, "failed", "environment", "verified", 19)]


def test_one_driver_update_is_one_regression(database: Database) -> None:
    """It slows 19 of 60 series, of three kernels."""
    steps = [Step(case=case, run=30, factor=1.08, cause="environment") for case in range(19)]
    take(database, file_lines(Plan(cases=60, runs=45, steps=steps, metrics=("hot",))))
    question = """
        SELECT title, cause, count(*) FROM v_regressions GROUP BY title, cause
    """
    title = UPDATED.format(change="8 % slower")
    assert rows(database, question) == [(title, "environment", 19)]
