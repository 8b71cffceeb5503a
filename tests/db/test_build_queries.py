"""Questions about a build, or a device's last canary, read their own rows and no others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, insert, update

from databases import Lab, one_engine
from planted_build_runs import CASES, PROGRAM, add_build, run_build
from vkbench.job import ArmKind, JobState
from vkbench_db import schema
from vkbench_db.ask import builds as of_builds
from vkbench_db.ask.devices.lately import steadiness
from vkbench_db.ask.results import ResultFilter, count, page
from vkbench_db.database import Database
from vkbench_db.work import store
from vkbench_detection.compare.suggestions import suggestions

MANY_RESULTS = Path(__file__).parents[2] / "benchmarks" / "many_results.py"
NIGHTS = 12
EACH = 20  # instructions of SQLite's machine between two counts
FIRST = ResultFilter(build=("first",))
QUESTIONS: dict[str, Callable[[Connection], object]] = {
    "results": lambda tx: page(tx, FIRST),
    "count": lambda tx: count(tx, FIRST),
    "on devices": lambda tx: of_builds.builds_on_devices(tx, [_sha(tx)], {_sha(tx)}),
    "page": lambda tx: of_builds.build(tx, "first"),
}


def _sha(tx: Connection) -> str:
    return next(row.sha for row in of_builds.builds(tx) if row.name == "first")


def instructions(lab: Lab, ask: Callable[[Connection], object]) -> int:
    """How much SQLite's machine does for a question; its statements were prepared before."""
    counted = 0

    def count_some() -> int:
        nonlocal counted
        counted += EACH
        return 0

    with lab.database.reading() as tx:
        ask(tx)
        driver = tx.connection.driver_connection
        assert driver
        driver.set_progress_handler(count_some, EACH)
        ask(tx)
        driver.set_progress_handler(None, EACH)
    return counted


@one_engine
def test_what_is_asked_of_a_build_costs_the_same_whatever_ran_since(lab: Lab) -> None:
    device = lab.add_device()
    run_build(lab, device, add_build(lab, "first"))
    second = add_build(lab, "second")
    before = {name: instructions(lab, ask) for name, ask in QUESTIONS.items()}
    for _ in range(NIGHTS):
        lab.now += 3600
        run_build(lab, device, second)
        lab.submit(device, CASES)
        lab.settle(device)
    after = {name: instructions(lab, ask) for name, ask in QUESTIONS.items()}
    for name, least in before.items():
        assert after[name] < least + 150, (name, before, after)


@one_engine
def test_the_last_canary_costs_the_same_however_many_came_before(lab: Lab) -> None:
    """The home page and /fleet ask for it, and a device has one before each batch of jobs."""
    lab.add_device()
    lab.add_device("gpu1")

    def add_canaries(moments: range) -> None:
        row = {"environment": "", "seconds": 1e-3, "deviation": None, "is_off": False}
        rows = [
            row | {"device_id": device, "measured_at": float(moment)}
            for device in (1, 2)
            for moment in moments
        ]
        with lab.database.transaction() as tx:
            tx.execute(insert(schema.canary), rows)

    add_canaries(range(1, 3))
    least = instructions(lab, steadiness)
    add_canaries(range(3, 500))
    assert instructions(lab, steadiness) < least + 100
    with lab.database.reading() as tx:
        assert [canary.at for canary in steadiness(tx).values()] == [499.0, 499.0]


@contextmanager
def planned(tx: Connection) -> Iterator[list[str]]:
    """The plans of all statements that are run meanwhile."""
    plans: list[str] = []

    def explain(
        _connection: object, _cursor: object, statement: str, values: object, *_: object
    ) -> tuple[str, object]:
        if not statement.startswith("EXPLAIN"):
            rows = tx.exec_driver_sql(f"EXPLAIN {statement}", values)  # type: ignore[arg-type]
            plans.append("\n".join(row[0] for row in rows))
        return statement, values

    event.listen(tx, "before_cursor_execute", explain, retval=True)
    yield plans
    event.remove(tx, "before_cursor_execute", explain)


@pytest.mark.parametrize("engine_name", ["postgresql"])
def test_postgresql_finds_what_it_is_asked_of_by_indexes(empty_url: str) -> None:
    command = [sys.executable, str(MANY_RESULTS), empty_url, "--builds", "25"]
    size = ("--series", "800", "--results", "20000")
    subprocess.run([*command, *size], check=True, timeout=50)
    with Database.open(empty_url) as database, database.transaction() as tx:
        tx.execute(update(schema.build).where(schema.build.c.name == "b8001").values(name="first"))
        for name, ask in QUESTIONS.items():
            with planned(tx) as plans:
                ask(tx)
            of_build = [plan for plan in plans if " on job" in plan and _sha(tx) in plan]
            assert of_build, name
            for plan in of_build:
                assert "ix_job_build" in plan, (name, plan)
                assert "Seq Scan on job" not in plan, (name, plan)
        with planned(tx) as plans:
            assert suggestions(tx)
        first = [plan for plan in plans if "Index Scan using uq_job_run_id_position" in plan]
        assert [plan for plan in first if plan.startswith("Limit") and "Sort" not in plan]


def test_a_job_that_no_worker_answers_counts_as_failed(lab: Lab) -> None:
    device = lab.add_device()
    build = add_build(lab, "first")
    run_build(lab, device, build, cases=CASES[1:])
    lab.submit(device, CASES[:1], variant=PROGRAM, bundle=build.sha, arm_kind=ArmKind.BUILD)
    while lost := [(job.id, job.token) for job in lab.pick(device)]:
        with lab.database.transaction() as tx:
            store.return_lost(tx, lost, lab.now)
    with lab.database.reading() as tx:
        [row] = of_builds.builds_on_devices(tx, [build.sha], {build.sha})
        assert (row.results, row.failed) == (2, 1)
        assert [shown.state for shown in page(tx, FIRST)] == [JobState.FAILED, JobState.PASSED]
