"""What people ask, and the filters that they ask it with."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import event, func, insert, select, text

from databases import Lab
from vkbench.errors import UnknownName, UsageError
from vkbench.job import JobState, Mode, Outcome
from vkbench.run import RunWords
from vkbench_db import schema
from vkbench_db.ask import queries
from vkbench_db.ask.devices.names import device_keys
from vkbench_db.ask.results import EVERY, ResultRow, results
from vkbench_db.work import store
from vkbench_detection.series import placing

MOST_PASSES = 10


@pytest.fixture
def filled(lab: Lab) -> Lab:
    """Two devices on two hosts, two kernels, a right, a wrong and a failed result."""
    here, there = lab.add_device(), lab.add_device("NVIDIA H200", "beta")
    lab.submit(here, ["mul_mat_vec/q4_0/m8_n1_k256", "add/f32/h2_w3"])
    lab.settle(here)
    lab.now += 10
    lab.submit(there, ["mul_mat_vec/q8_0/m8_n1_k256"])
    lab.settle(there, Outcome.WRONG)
    lab.now += 10
    lab.submit(there, ["add/f32/h2_w3"], mode=Mode.CORRECTNESS)
    lab.settle(there, Outcome.CRASHED)
    return lab


def ask(lab: Lab, limit: int | None = 50, **filters: Any) -> Sequence[ResultRow]:
    with lab.database.reading() as tx:
        return results(tx, replace(EVERY, **filters), limit=limit)


def test_a_row_tells_the_whole_story(filled: Lab) -> None:
    hot = ask(filled, kernel=["mul_mat_vec"], format=["q4_0"])[1]
    assert (hot.host, hot.device_name, hot.driver) == ("alpha", "llvmpipe", "llvmpipe")
    assert (hot.case_name, hot.kernel, hot.format) == (
        "mul_mat_vec/q4_0/m8_n1_k256", "mul_mat_vec", "q4_0",
    )  # fmt: skip
    assert (hot.shape, hot.variant, hot.variant_run) == ("m8_n1_k256", "auto", "subgroup")
    assert (hot.state, hot.metric, hot.seconds, hot.count) == ("passed", "hot", 1e-3, 3)
    assert hot.gb_per_second == pytest.approx(1.0)
    assert hot.gflop_per_second == pytest.approx(2.0)
    assert (hot.nmse, hot.path, hot.warnings) == (1e-14, "f32", [])
    assert hot.finished_at == pytest.approx(filled.now - 20)


def test_newest_first_and_limited(filled: Lab) -> None:
    rows = ask(filled)
    assert [(row.state, row.metric) for row in rows] == [
        ("failed", None),
        ("wrong", None),
        *[("passed", "cold"), ("passed", "hot")] * 2,
    ]
    assert ask(filled, limit=2) == rows[:2]
    assert ask(filled, limit=None) == rows
    assert (rows[0].cause, rows[0].tries, rows[0].driver) == ("crashed", 3, None)


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ({"kernel": ["MUL*"]}, 3),
        ({"kernel": ["*"]}, 6),
        ({"format": ["q8_0"]}, 1),
        ({"kernel": ["add"], "format": ["q8_0"]}, 0),
        ({"mode": [Mode.CORRECTNESS]}, 1),
        ({"state": [JobState.WRONG, JobState.FAILED]}, 2),
        ({"device": ["*"]}, 6),
        ({"device": ["h200"]}, 2),
        ({"device": ["BETA"]}, 2),
        ({"device": ["llvm*"]}, 4),
        ({"device": ["llvmpipe", "H200"]}, 6),
        ({"run": 2}, 1),
        ({"run": 99}, 0),
    ],
)
def test_filters(filled: Lab, filters: dict[str, Any], count: int) -> None:
    assert len(ask(filled, **filters)) == count
    assert len(ask(filled, history=False, **filters)) == count


def test_a_series_has_its_own_metric_alone_newest_first(lab: Lab) -> None:
    device = lab.add_device()
    for seconds in (1.0, 2.0, 3.0):
        lab.submit(device, ["add/f32/h2_w3", "add/f32/h2_w4"])
        lab.settle(device, seconds=seconds)
        lab.now += 60
    with lab.database.transaction() as tx:
        placing.place(tx, lab.now)
    hot = next(row for row in ask(lab) if row.metric == "hot")
    history = ask(lab, series=hot.series)
    assert [row.seconds for row in history] == [3.0, 2.0, 1.0]
    assert {(row.case_name, row.metric) for row in history} == {(hot.case_name, "hot")}
    assert ask(lab, series=hot.series, limit=2) == history[:2]
    assert ask(lab, series=99) == []


def test_a_device_is_found_by_its_key_or_the_beginning_of_it(filled: Lab) -> None:
    key = ask(filled)[0].device
    with filled.database.reading() as tx:
        for selector in (key, key[:4], key.upper()):
            assert device_keys(tx, [selector]) == [key]


@pytest.mark.parametrize(
    ("filters", "near"),
    [
        ({"kernel": ["mul_mat_vek"]}, "mul_mat_vec"),
        ({"format": ["q4_1"]}, "q4_0"),
        ({"device": ["lvmpip3"]}, "llvmpipe"),
        ({"device": ["H200", "nvidia h20000"]}, "NVIDIA H200"),
    ],
)
def test_an_unknown_name_is_met_with_the_nearest(
    filled: Lab, filters: dict[str, Any], near: str
) -> None:
    with pytest.raises(UnknownName, match="did you mean") as error:
        ask(filled, **filters)
    assert near in str(error.value)


def test_latest_is_the_newest_of_each_series(lab: Lab) -> None:
    device = lab.add_device()
    case = "add/f32/h2_w3"
    for seconds in (1.0, 2.0, 3.0):
        lab.submit(device, [case])
        lab.submit(device, [case], variant="portable")
        lab.settle(device, seconds=seconds)
        if seconds < 3:
            lab.now += 1  # the last two are of one moment: the later job counts
    lab.submit(device, [case])  # unfinished
    latest = ask(lab, history=False)
    assert {(row.variant, row.metric, row.seconds) for row in latest} == {
        ("auto", "hot", 3.0), ("auto", "cold", 6.0),
        ("portable", "hot", 3.0), ("portable", "cold", 6.0),
    }  # fmt: skip
    assert len(latest) == 4
    with lab.database.reading() as tx:
        view = tx.execute(text("SELECT job, metric FROM v_latest")).all()
    assert {tuple(row) for row in view} == {(row.job, row.metric) for row in latest}


def test_cancelled_and_unfinished_jobs_are_no_results(lab: Lab) -> None:
    device = lab.add_device()
    run = lab.submit(device, 3)
    lab.pick(device, 1)
    with lab.database.transaction() as tx:
        store.cancel(tx, run, lab.now)
    lab.submit(device, 1)
    assert ask(lab) == []
    with lab.database.reading() as tx:
        assert [job.state for job in queries.jobs(tx, run=run)] == ["cancelled"] * 3
        assert [job.state for job in queries.jobs(tx)] == ["queued"] + ["cancelled"] * 3
        assert len(queries.jobs(tx, states=["queued"], devices=["llvm"])) == 1
        [job] = queries.jobs(tx, run=run, limit=1)
    assert (job.position, job.case_name, job.token) == (0, "mul_mat_vec/q4_0/m1_n1_k256", 1)
    assert (job.dispatched_at, job.finished_at) == (lab.now, None)


def test_runs_are_found_by_number_label_uuid_and_last(lab: Lab) -> None:
    device = lab.add_device()
    made = []
    for label in ("nightly", "nightly", "tuning"):
        lab.now += 1
        with lab.database.transaction() as tx:
            made.append(
                store.create_run(
                    tx,
                    mode=Mode.BOTH,
                    selection={"suite": "quick"},
                    now=lab.now,
                    words=RunWords(label=label, user="ann", tags={"pr": "7"}),
                )
            )
            store.add_jobs(tx, made[-1].id, [lab.planned(device)])
    first, second, third = made
    with lab.database.reading() as tx:
        found = [
            queries.find_run(tx, asked).id
            for asked in ("last", str(first.id), "nightly", first.uuid, second.uuid[:8].upper())
        ]
        rows = queries.runs(tx, limit=2)
        with pytest.raises(UnknownName, match="did you mean 'tuning'"):
            queries.find_run(tx, "tunning")
        for asked in ("99", "9" * 30, "", "%", "____"):
            with pytest.raises(UnknownName):
                queries.find_run(tx, asked)
    assert found == [third.id, first.id, second.id, first.id, second.id]
    assert [row.id for row in rows] == [third.id, second.id]
    assert (rows[0].user, rows[0].label, rows[0].tags) == ("ann", "tuning", {"pr": "7"})
    assert rows[0].selection == {"suite": "quick"}
    assert rows[0].progress == store.Progress(counts={JobState.QUEUED: 1}, cancelled=False)


def test_an_ambiguous_uuid_asks_for_more(lab: Lab) -> None:
    with lab.database.transaction() as tx:
        for last in "12":
            row = {"uuid": f"abcd-{last}", "created_at": 1.0, "user_name": "", "label": ""}
            rest = {"tags": {}, "selection": {}, "mode": "both", "priority": 0}
            tx.execute(insert(schema.run).values(**row, **rest))
        with pytest.raises(UsageError, match="several"):
            queries.find_run(tx, "abcd")
        assert queries.find_run(tx, "abcd-2").uuid == "abcd-2"


@pytest.mark.parametrize(
    ("engine_name", "with_statistics"),
    # PostgreSQL gathers statistics by itself, SQLite only when it is told
    [("sqlite", True), ("sqlite", False), ("postgresql", True)],
    indirect=["engine_name"],
)
def test_a_hundred_thousand_results_are_listed_quickly(
    lab: Lab, engine_name: str, with_statistics: bool
) -> None:
    """A listing costs at most a few passes over the jobs, whatever else the machine does.

    SQLite tells how many steps it took, and PostgreSQL is timed: it takes less than half a pass.
    """
    device = lab.add_device()
    run = lab.submit(device, [number % 3000 + 1 for number in range(100_000)])
    _settle_by_sql(lab, with_statistics)
    asked: tuple[dict[str, Any], ...] = (
        *({}, {"history": False}, {"run": run}, {"kernel": ["mul*"], "history": False}),
        {"history": False, "mode": [Mode.CORRECTNESS, Mode.PERFORMANCE]},
        *({"device": ["llvm"]}, {"state": ["wrong", "passed"], "format": ["q4*"]}),
    )
    cost = _steps if engine_name == "sqlite" else _seconds
    for filters in asked:
        taken, passes = [], []
        for _ in range(3):
            passes.append(cost(lab, partial(_pass_over_jobs, lab)))
            taken.append(cost(lab, partial(_list_fifty, lab, filters)))
        print(f"{engine_name} {filters}: {min(taken) / min(passes):.1f} passes")
        assert min(taken) < MOST_PASSES * min(passes), filters


def _seconds(_: Lab, work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _steps(lab: Lab, work: Callable[[], None]) -> float:
    """Instructions of SQLite's virtual machine, in hundreds."""
    taken = 0

    def one_more() -> None:
        nonlocal taken
        taken += 1

    def counted(connection: Any, *_: object) -> None:
        connection.set_progress_handler(one_more, 100)

    event.listen(lab.database.engine, "checkout", counted)
    try:
        work()
    finally:
        event.remove(lab.database.engine, "checkout", counted)
    assert taken > 0, "no connection was counted"
    return taken


def _pass_over_jobs(lab: Lab) -> None:
    """Look at every job's row once."""
    with lab.database.reading() as tx:
        found = tx.execute(
            select(func.max(schema.job.c.reason), func.sum(schema.job.c.token))
        ).one()
    assert found[1] >= 100_000


def _list_fifty(lab: Lab, filters: dict[str, Any]) -> None:
    assert len(ask(lab, **filters)) == 50


def _settle_by_sql(lab: Lab, with_statistics: bool) -> None:
    """100,000 results at once; recording them is tested elsewhere and would take a minute."""
    moment = {
        "sqlite": "datetime('2026-01-01', '+' || id || ' seconds') || '.000000'",
        "postgresql": "timestamptz '2026-01-01' + id * interval '1 second'",
    }[lab.database.engine.dialect.name]
    with lab.database.transaction() as tx:
        for statement in (
            "UPDATE job SET state = 'passed', token = 1, settled_token = 1,"
            f" finished_at = {moment}",
            "INSERT INTO attempt (job_id, token, outcome, reason, variant, kernel_sha,"
            " environment, worker, started_at, seconds, telemetry, recorded_at)"
            " SELECT id, 1, 'passed', '', 'subgroup', 'sha', 'env', 'w', NULL,"
            " 0.02, '{}', finished_at FROM job",
            "INSERT INTO measurement (job_id, metric, token, seconds, mad, low, high, confidence,"
            " best, count, launches, stop, clock, bytes_moved, flops, warnings, samples)"
            " SELECT id, m.metric, 1, 0.001, 0.0, 0.001, 0.001, 0.95, 0.001,"
            " 3, 1, 'noise', 'gpu', 1000000, 2000000, '[]', '' FROM job,"
            " (SELECT 'hot' AS metric UNION SELECT 'cold') AS m",
        ):
            tx.execute(text(statement))
        if with_statistics:
            tx.execute(text("ANALYZE"))
