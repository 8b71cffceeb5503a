"""Timings of older versions, whose metrics were sides: in databases, files and messages."""

from __future__ import annotations

from dataclasses import replace

import pytest
from alembic import command
from sqlalchemy import Connection, create_engine, select, text

from databases import Lab
from planted_runs import timing
from vkbench.job import Arm, Job, Mode, Pair
from vkbench.result import Side, Timing
from vkbench_db import migrations, schema
from vkbench_db.database import Database, parse_url, upgrade
from vkbench_db.older import timings_of

CASE = "add/f32/h1_w1"
MODES = {1: "performance", 2: "paired", 3: "peer", 4: "performance"}  # of jobs
TIMED = {1: ("hot", "cold"), 2: ("old", "new"), 3: ("hot", "ours"), 4: ("hot",)}
SIDES = {
    1: {("hot", "ours"), ("cold", "ours")},
    2: {("cold", "old"), ("cold", "new")},
    3: {("hot", "theirs"), ("hot", "ours")},
    4: {("hot", "theirs")},  # an import
}


def store_old(tx: Connection) -> None:
    """What schema 0019 kept of four jobs, of which the last was imported."""
    statements = [
        "INSERT INTO host (id, name) VALUES (1, 'h')",
        "INSERT INTO device (id, key, host_id, name, facts, paused, worker, bundle, environment,"
        " last_run) VALUES (1, 'k', 1, 'd', '{}', false, '', '', '', 0)",
        "INSERT INTO kernel_case (id, name, kernel, format, types, shape, params)"
        " VALUES (1, 'add/f32/n1', 'add', 'f32', '', 'n1', '')",
    ]
    for job, mode in MODES.items():
        track, metric = ("peers" if job == 4 else "main"), ("cold" if mode == "paired" else "")
        statements += [
            "INSERT INTO run (id, uuid, created_at, user_name, label, tags, selection, mode,"
            f" priority, track) VALUES ({job}, 'u{job}', '2026-01-01', '', '', '{{}}', '{{}}',"
            f" '{mode}', 0, '{track}')",
            "INSERT INTO job (id, run_id, position, device_id, case_id, mode, variant, bundle,"
            " limit_seconds, measure_seconds, noise, estimate_seconds, metric, state, token, tries,"
            f" dispatches, cause, reason, settled_token, finished_at) VALUES ({job}, {job}, 0, 1,"
            f" 1, '{mode}', 'x', '', 1, 1, 1, 1, '{metric}', 'passed', 1, 0, 1, '', '', 1,"
            " '2026-01-01')",
            "INSERT INTO attempt (job_id, token, outcome, reason, variant, kernel_sha,"
            " environment, worker, seconds, telemetry, recorded_at)"
            f" VALUES ({job}, 1, 'passed', '', 'x', '', '', '', 1, '{{}}', '2026-01-01')",
        ]
        if job >= 3:
            statements += [
                "INSERT INTO series (id, device_id, case_id, variant, metric, environment_class,"
                f" track, noise_kind) VALUES ({job}{number}, 1, 1, 'x', '{name}', '', '{track}',"
                " '')"
                for number, name in enumerate(TIMED[job])
            ]
        statements += [
            "INSERT INTO measurement (job_id, token, metric, seconds, mad, low, high, confidence,"
            " best, count, launches, stop, clock, bytes_moved, flops, warnings, samples,"
            f" series_id) VALUES ({job}, 1, '{name}', 1, 0, 1, 1, 0.95, 1, 1, 1, 'noise', 'gpu',"
            f" 1, 1, '[]', '', {f'{job}{number}' if job >= 3 else 'NULL'})"
            for number, name in enumerate(TIMED[job])
        ]
    for statement in statements:
        tx.execute(text(statement))


def test_databases_say_whose_timings_are(empty_url: str) -> None:
    engine = create_engine(parse_url(empty_url))
    with engine.begin() as tx:
        command.upgrade(migrations.config(tx), "0019")
        store_old(tx)
    engine.dispose()
    upgrade(empty_url)
    timed, series = schema.measurement.c, schema.series.c
    with Database.open(empty_url) as database, database.reading() as tx:
        for job, sides in SIDES.items():
            rows = tx.execute(select(timed.metric, timed.side).where(timed.job_id == job)).all()
            assert {tuple(row) for row in rows} == sides
        placed = select(series.id, series.metric, series.side).order_by(series.id)
        assert [tuple(row) for row in tx.execute(placed)] == [
            *((30, "hot", "theirs"), (31, "hot", "ours"), (40, "hot", "theirs")),
        ]
        shown = tx.execute(text("SELECT job, metric, side FROM v_results")).all()
        assert len(shown) == sum(map(len, SIDES.values()))


@pytest.mark.parametrize("job", [1, 2, 3])
def test_messages_and_files_do_too(job: int) -> None:
    timings = [timing(name, 1e-3) for name in TIMED[job]]
    found = timings_of(timings, "cold" if job == 2 else "")
    assert {(each.metric, each.side.value) for each in found} == SIDES[job]
    assert timings_of(found, "") == found


def test_what_an_older_worker_says_of_a_pair_is_stored_as_today(lab: Lab) -> None:
    pair = Pair(old=Arm(sha="0a" * 32), metric="cold")
    device = lab.add_device()
    lab.submit(device, [CASE], mode=Mode.PAIRED, bundle="0b" * 32, pair=pair)
    [job] = lab.pick(device)
    lab.record(replace(lab.answer(_unpaired(job)), timings=_of_older_worker()))
    timed = schema.measurement.c
    with lab.database.reading() as tx:
        rows = tx.execute(select(timed.metric, timed.side).order_by(timed.side)).all()
    assert [tuple(row) for row in rows] == [("cold", Side.NEW), ("cold", Side.OLD)]


def _unpaired(job: Job) -> Job:
    return replace(job, mode=Mode.PERFORMANCE, pair=None)


def _of_older_worker() -> tuple[Timing, ...]:
    return timing("old", 1e-3), timing("new", 2e-3)
