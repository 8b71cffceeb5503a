"""The table of latest results says what a search of all jobs finds, whoever ended the jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import delete, select, update

from databases import Lab
from vkbench.job import MAIN, MAX_DISPATCHES, PEERS, Mode, Outcome
from vkbench.result import Side
from vkbench.run import Purpose, RunKind, RunWords
from vkbench_db import schema
from vkbench_db.ask import latest_results
from vkbench_db.ask.job_story import hot_seconds
from vkbench_db.ask.latest_results import kernel_states
from vkbench_db.database import Database
from vkbench_db.transfer.exchange import export_run, import_lines
from vkbench_db.upkeep.tuning import sweeps
from vkbench_db.work import store

A_SWEEP = Purpose(kind=RunKind.SWEEP)
Noted = tuple[Any, ...]  # job, state, moment
CASES = ["mul_mat_vec/q4_0/m8_n1_k256", "add/f32/h2_w3"]


def noted(database: Database) -> list[Noted]:
    table = schema.latest.c
    with database.reading() as tx:
        asked = select(table.job_id, table.state, table.finished_at).order_by(table.job_id)
        return [tuple(row) for row in tx.execute(asked).all()]


def found(database: Database) -> list[Noted]:
    job = schema.job.c
    work = (job.device_id, job.case_id, job.mode, job.variant)
    with database.reading() as tx:
        rows = tx.execute(
            select(job.id, job.state, job.finished_at, *work)
            .where(job.finished_at.is_not(None), job.run_id.not_in(sweeps(tx)))
            .order_by(job.finished_at, job.id)
        )
        newest = {tuple(row[3:]): tuple(row[:3]) for row in rows}
        return sorted(newest.values())


def test_results_are_noted_as_they_come(lab: Lab) -> None:
    here, there = lab.add_device(), lab.add_device("NVIDIA H200", "beta")
    lab.submit(here, CASES)
    lab.submit(here, CASES, mode=Mode.CORRECTNESS)
    lab.submit(there, CASES)
    lab.settle(here)
    lab.settle(there, Outcome.WRONG)
    assert len(noted(lab.database)) == 6
    lab.now += 10
    lab.submit(here, CASES[:1])
    lab.submit(here, CASES[:1])  # both end at one moment: the later job is the newer
    lab.settle(here, Outcome.SKIPPED)
    assert noted(lab.database) == found(lab.database)
    assert [state for _, state, _ in noted(lab.database)].count("skipped") == 1


def test_an_older_result_that_comes_late_changes_nothing(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, CASES)
    lab.settle(device)
    before = noted(lab.database)
    lab.now -= 1000
    lab.submit(device, CASES)
    lab.settle(device, Outcome.WRONG)
    assert noted(lab.database) == before == found(lab.database)


def test_what_sweeps_try_is_not_noted(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit_run([lab.planned(device, CASES[0])], words=RunWords(purpose=A_SWEEP))
    lab.settle(device)
    assert noted(lab.database) == []


def test_a_job_that_fails_because_it_is_always_lost_is_noted(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, CASES[:1])
    [job] = lab.pick(device)
    with lab.database.transaction() as tx:
        tx.execute(update(schema.job).values(dispatches=MAX_DISPATCHES))
        store.return_lost(tx, [(job.id, job.token)], lab.now)
    assert [state for _, state, _ in noted(lab.database)] == ["failed"]
    assert noted(lab.database) == found(lab.database)


def test_imports_note_what_they_bring(lab: Lab) -> None:
    device = lab.add_device()
    run = lab.submit(device, CASES)
    lab.settle(device)
    with lab.database.reading() as tx:
        lines = list(export_run(tx, run))
    before = noted(lab.database)
    with lab.database.transaction() as tx:
        for table in ("latest", "fresh", "measurement", "verdict", "attempt", "job", "run"):
            tx.execute(delete(schema.TABLES.tables[table]))
        import_lines(tx, lines, lab.now)
    assert len(noted(lab.database)) == len(before)
    assert noted(lab.database) == found(lab.database)


def test_what_another_program_timed_is_no_state_of_our_kernels(lab: Lab) -> None:
    """An import of ggml's own timings: they passed in the sense alone that they were timed."""
    device, case = lab.add_device(), CASES[1]
    for kind, track, variant, seconds in (
        (RunKind.WORK, MAIN, "auto", 1e-3),
        (RunKind.IMPORT, PEERS, "ggml", 9e-3),
    ):
        lab.now += 60
        words = RunWords(purpose=Purpose(kind=kind))
        lab.submit_run([lab.planned(device, case, variant=variant)], track=track, words=words)
        [job] = lab.pick(device)
        answer = lab.answer(job, seconds=seconds)
        side = Side.THEIRS if kind is RunKind.IMPORT else Side.OURS
        lab.record(replace(answer, timings=tuple(replace(t, side=side) for t in answer.timings)))
    with lab.database.transaction() as tx:
        tx.execute(update(schema.measurement).values(roof_fraction=0.5))
    with lab.database.reading() as tx:
        assert [row.results for row in latest_results.states(tx, device)] == [1]
        assert [row.results for row in kernel_states(tx)] == [1]
        assert len(latest_results.roof_shares(tx, device, "hot")) == 1
        assert hot_seconds(tx, device, [case]) == {case: 1e-3}
