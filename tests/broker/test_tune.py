"""A sweep by the fleet: the scheduler settles it, and tells the next jobs what was the fastest."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import select

from cluster import Lab, until
from vkbench.job import Mode
from vkbench_db import schema
from vkbench_db.ask import queries
from vkbench_db.upkeep.tuning import TunedRow, newest_findings
from vkbench_scheduler.planning import sweeps
from vkbench_scheduler.planning.selection import ALL, Selection
from vkbench_scheduler.planning.submit import submit
from vkbench_scheduler.planning.sweeps import Sweep

CASE = "sum/f32/b1_c1_h64_w4096"


def known(lab: Lab) -> list[TunedRow]:
    with lab.database.reading() as tx:
        return newest_findings(tx)


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("lavapipe")
def test_a_sweep_by_the_fleet_is_settled_and_used(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(runner="vkbench_worker.runner.main")
    lab.start_scheduler()
    lab.start("-m", "vkbench_worker.service.main", "llvmpipe", log="worker")

    def facts() -> list[queries.DeviceRow]:
        with lab.database.reading() as tx:
            return queries.devices(tx)

    until(facts, "no device announces itself", 60)
    devices = [row.facts for row in facts()]
    asked = Selection(cases=(CASE,), variant=ALL, measure_seconds=0.02)
    sweep = sweeps.submit(lab.database, asked, devices, Sweep(settings=3, rounds=1))
    assert sweep.jobs == 3
    lab.await_end(sweep.run.id, seconds=60)
    until(lambda: known(lab), "the sweep is not settled", 30)
    [row] = known(lab)
    assert (row.case, row.run) == (CASE, sweep.run.id)
    plain = submit(lab.database, Selection(cases=(CASE,), mode=Mode.CORRECTNESS), devices)
    lab.await_end(plain.run.id, seconds=60)
    attempt, job = schema.attempt.c, schema.job.c
    with lab.database.reading() as tx:
        [ran] = tx.execute(
            select(attempt.variant, attempt.settings)
            .join(schema.job, job.id == attempt.job_id)
            .where(job.run_id == plain.run.id)
        ).all()
    name, _, settings = row.configuration.partition(":")
    assert ran.settings == settings
    assert ran.variant == (name if row.configuration == row.estimated else row.configuration)
