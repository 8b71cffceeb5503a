"""New results find their series, and the screen finds what is unlike the others there."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import func, select, text

from databases import Lab
from vkbench.device import Environment
from vkbench.job import Mode, Outcome
from vkbench.messages.wire import Announcement
from vkbench.result import BOUNDS_CHECKED
from vkbench_db import schema
from vkbench_db.work import store
from vkbench_detection.find.screening import screen
from vkbench_detection.series.placing import PATIENCE_SECONDS, Placed, place
from vkbench_detection.statistics.screen import LEAST
from vkbench_detection.steps import catch_up

NIGHT = 86_400.0


def night(lab: Lab, device: str, seconds: float, outcome: Outcome = Outcome.PASSED) -> None:
    lab.now += NIGHT
    lab.submit(device, [1])
    lab.settle(device, outcome, seconds=seconds)


def placed(lab: Lab) -> Placed:
    with lab.database.transaction() as tx:
        return place(tx, lab.now)


def screened(lab: Lab) -> list[int]:
    with lab.database.transaction() as tx:
        return screen(tx, place(tx, lab.now).series, lab.now)


def rows(lab: Lab, question: str) -> list[tuple[Any, ...]]:
    with lab.database.reading() as tx:
        return [tuple(row) for row in tx.execute(text(question))]


SERIES = "SELECT variant, metric, environment_class, track FROM series ORDER BY id"
CHANGES = "SELECT direction, method, state, cause, before_job, after_job FROM change_point"


def test_timings_go_to_the_series_of_what_ran(lab: Lab) -> None:
    device = lab.add_device()
    night(lab, device, 1e-3)
    night(lab, device, 1e-3)
    done = placed(lab)
    assert (done.jobs, len(done.series)) == (2, 2)
    kinds = {(variant, kind, track) for variant, _, kind, track in rows(lab, SERIES)}
    assert kinds == {("subgroup", "default", "main")}
    assert {metric for _, metric, _, _ in rows(lab, SERIES)} == {"hot", "cold"}
    counted = "SELECT count(*) FROM measurement WHERE measured_at IS NOT NULL GROUP BY series_id"
    assert rows(lab, counted) == [(2,), (2,)]
    assert placed(lab).jobs == 0


def test_checks_trials_and_pairs_have_no_series(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit_run([lab.planned(device, 1)])
    lab.submit(device, [2], mode=Mode.CORRECTNESS)
    lab.settle(device)
    assert placed(lab).jobs == 2
    assert rows(lab, "SELECT count(*) FROM series") == [(0,)]


def test_clock_policies_are_series_of_their_own(lab: Lab, environment: Environment) -> None:
    device = lab.add_device()
    locked = replace(environment, clock_policy="locked")
    lab.submit(device, [1])
    [job] = lab.pick(device)
    lab.record(replace(lab.answer(job), environment=locked.hash))
    assert placed(lab).jobs == 0  # its announcement may still be on its way
    announcement = Announcement(worker="w", facts=lab.facts(), environment=locked, bundle="b")
    with lab.database.transaction() as tx:
        store.register_device(tx, announcement, lab.now)
    assert placed(lab).jobs == 1
    assert {kind for _, _, kind, _ in rows(lab, SERIES)} == {"locked"}


def test_an_environment_that_is_never_announced_is_not_waited_for(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, [1])
    [job] = lab.pick(device)
    lab.record(replace(lab.answer(job), environment="0" * 64))
    lab.now += PATIENCE_SECONDS + 1
    assert placed(lab).jobs == 1
    assert {kind for _, _, kind, _ in rows(lab, SERIES)} == {"default"}


@pytest.mark.parametrize("throttled", [True, False])
def test_throttled_timings_do_not_count(lab: Lab, throttled: bool) -> None:
    device = lab.add_device()
    lab.submit(device, [1])
    [job] = lab.pick(device)
    answer = lab.answer(job)
    lab.record(replace(answer, telemetry={"throttled": float(throttled)}))
    placed(lab)
    flags = {flag for (flag,) in rows(lab, "SELECT flag FROM measurement")}
    assert flags == {"throttled" if throttled else ""}


def test_timings_with_bounds_checked_are_series_of_their_own(lab: Lab) -> None:
    device = lab.add_device()
    for telemetry in ({}, {BOUNDS_CHECKED: 1.0}):
        lab.submit(device, [1])
        [job] = lab.pick(device)
        lab.record(replace(lab.answer(job), telemetry=telemetry))
    placed(lab)
    kinds = [kind for _, metric, kind, _ in rows(lab, SERIES) if metric == "hot"]
    assert kinds == ["default", "default, bounds checked"]


def history(lab: Lab, device: str, count: int = 60) -> None:
    rng = random.Random(1)
    for _ in range(count):
        night(lab, device, 1e-3 * rng.gauss(1, 0.005))
    assert screened(lab) == []


def test_a_step_is_suspected_where_it_begins(lab: Lab) -> None:
    device = lab.add_device()
    history(lab, device)
    night(lab, device, 1.1e-3)
    assert len(screened(lab)) == 2  # hot and cold
    assert rows(lab, CHANGES) == [("slower", "screen", "suspected", "", 60, 61)] * 2
    events = "SELECT state, note FROM change_point_event"
    assert all(state == "suspected" and "jump" in note for state, note in rows(lab, events))
    night(lab, device, 1.1e-3)
    night(lab, device, 1.1e-3)
    night(lab, device, 1.1e-3)
    assert screened(lab) == []  # suspected already


def test_new_series_are_not_screened(lab: Lab) -> None:
    device = lab.add_device()
    for number in range(LEAST):
        night(lab, device, 1e-3 * (1 + number % 2))
    assert screened(lab) == []


def test_the_screen_goes_on_where_it_stood(lab: Lab) -> None:
    """One result at a time is what all at once is."""
    one, other = lab.add_device(), lab.add_device("other")
    rng = random.Random(2)
    for _ in range(30):
        seconds = 1e-3 * rng.gauss(1, 0.01)
        night(lab, one, seconds)
        screened(lab)
        night(lab, other, seconds)
    placed(lab)
    with lab.database.transaction() as tx:
        ids = tx.execute(select(schema.series.c.id)).scalars().all()
        assert screen(tx, ids, lab.now) == []
        states = tx.execute(
            select(schema.series.c.metric, schema.series.c.screen).order_by(schema.series.c.id)
        ).all()
    by_metric: dict[str, list[object]] = {}
    for metric, state in states:
        by_metric.setdefault(metric, []).append(state and state["state"])
    assert [each[0] == each[1] for each in by_metric.values()] == [True, True]


def test_wrong_after_right_is_certain_at_once(lab: Lab) -> None:
    device = lab.add_device()
    night(lab, device, 1e-3)
    night(lab, device, 1e-4, Outcome.WRONG)
    night(lab, device, 1e-4, Outcome.WRONG)
    assert len(placed(lab).changes) == 1
    assert rows(lab, CHANGES) == [("wrong", "verdict", "confirmed", "host", 1, 2)]
    kinds = "SELECT state FROM change_point_event ORDER BY id"
    assert rows(lab, kinds) == [("suspected",), ("confirmed",)]


def test_wrong_from_the_first_is_no_change(lab: Lab) -> None:
    device = lab.add_device()
    night(lab, device, 1e-3, Outcome.WRONG)
    night(lab, device, 1e-3, Outcome.WRONG)
    assert placed(lab).changes == ()


def test_batches_are_bounded(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, 5)
    lab.settle(device)
    with lab.database.transaction() as tx:
        assert place(tx, lab.now, limit=3).jobs == 3
        assert tx.execute(select(func.count()).select_from(schema.fresh)).scalar() == 2


def test_two_at_once_place_each_job_once(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, 40)
    lab.settle(device)
    start = Barrier(3)

    def worker(_: int) -> int:
        start.wait()
        jobs = 0
        while True:
            with lab.database.transaction() as tx:
                done = place(tx, lab.now, limit=3)
                screen(tx, done.series, lab.now)
            if not done.jobs:
                return jobs
            jobs += done.jobs

    with ThreadPoolExecutor(3) as pool:
        assert sum(pool.map(worker, range(3))) == 40
    assert rows(lab, "SELECT count(*), count(DISTINCT case_id) FROM series") == [(80, 40)]
    seen = {row[0]["state"]["count"] for row in screens(lab)}
    assert seen == {1}


def screens(lab: Lab) -> list[tuple[Any, ...]]:
    with lab.database.reading() as tx:
        return [tuple(row) for row in tx.execute(select(schema.series.c.screen))]


def test_what_was_placed_by_one_who_died_is_screened(lab: Lab) -> None:
    device = lab.add_device()
    for _ in range(LEAST):
        night(lab, device, 1e-3)
        screened(lab)
    night(lab, device, 2e-3)
    night(lab, device, 2e-3, Outcome.WRONG)
    placed(lab)  # and no more
    assert {row[:2] for row in rows(lab, CHANGES)} == {("wrong", "verdict")}
    assert len(catch_up(lab.database, lab.now)) == 2
    assert {row[:2] for row in rows(lab, CHANGES)} == {("wrong", "verdict"), ("slower", "screen")}
    assert rows(lab, "SELECT direction FROM regression") == [("wrong",)]
    assert catch_up(lab.database, lab.now) == []
