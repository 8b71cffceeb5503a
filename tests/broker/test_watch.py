"""The whole way of a regression: results come in, pairs are measured, a cause is found."""

import time
from collections.abc import Callable

import pytest
from sqlalchemy import select, text

from cluster import Lab, until
from planted_add import SLOW, planted_add
from planted_night import LEVEL, quiet_nights, settle
from vkbench.job import Mode, PlannedJob
from vkbench_db import schema
from vkbench_db.work import store
from vkbench_scheduler.bundles import keep
from vkbench_shaders.bundle import packaged_sha

CHECKED = "add/f32/b1_c1_h3_w4"


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("lavapipe")
def test_a_slower_kernel_is_confirmed_and_a_wrong_one_is_wrong(
    make_lab: Callable[..., Lab],
) -> None:
    lab = make_lab(runner="vkbench_worker.runner.main")
    slow, wrong = planted_add(SLOW), planted_add("sum = 0;")
    lab.start_scheduler()
    lab.start("-m", "vkbench_worker.service.main", "llvmpipe", log="worker")
    with lab.database.transaction() as tx:
        for bundle in (slow, wrong):
            keep(tx, bundle, 1.0)
    device = device_of(lab)
    now = time.time()
    quiet_nights(lab.database, device, packaged_sha(), now)
    check(lab, device, "")
    settle(lab.database, device, slow.sha, 1.5 * LEVEL, now)
    check(lab, device, wrong.sha)
    until(lambda: len(regressions(lab)) == 2, lambda: told(lab), 300)
    assert regressions(lab) == {("slower", "kernel", "open"), ("wrong", "kernel", "open")}
    with lab.database.reading() as tx:
        found = tx.execute(text("SELECT verdict, ratio, p, pairs FROM confirmation")).one()
    assert found.verdict == "regressed"
    assert found.ratio > 1.05
    assert found.p < 0.001
    log = (lab.folder / "scheduler.log").read_text()
    assert "_failed" not in log
    assert "Traceback" not in log


def device_of(lab: Lab) -> str:
    def keys() -> list[str]:
        with lab.database.reading() as tx:
            return list(tx.execute(select(schema.device.c.key)).scalars())

    until(keys, "no device announces itself", 60)
    return keys()[0]


def check(lab: Lab, device: str, bundle: str) -> None:
    """Have the worker check a small case, and wait for it."""
    planned = PlannedJob(
        device=device, case=CHECKED, mode=Mode.CORRECTNESS, variant="portable", bundle=bundle
    )
    with lab.database.transaction() as tx:
        run = store.create_run(
            tx, mode=Mode.CORRECTNESS, selection={}, now=time.time(), priority=2000
        ).id
        store.add_jobs(tx, run, [planned])
    lab.await_end(run, seconds=120)


def regressions(lab: Lab) -> set[tuple[str, ...]]:
    with lab.database.reading() as tx:
        rows = tx.execute(text("SELECT direction, cause, state FROM regression")).all()
    return {tuple(row) for row in rows}


def told(lab: Lab) -> str:
    with lab.database.reading() as tx:
        rows = tx.execute(text("SELECT state, note FROM change_point_event ORDER BY id")).all()
    return "\n".join(" ".join(row) for row in rows)
