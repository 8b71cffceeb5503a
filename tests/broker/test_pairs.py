"""The whole way of a pair: two bundles from the database, a worker, a process each, the ratio."""

from collections.abc import Callable
from statistics import median

import pytest
from sqlalchemy import select

from cluster import Lab, until
from planted_add import SLOW, planted_add
from vkbench.job import Arm, Outcome
from vkbench.run import Purpose, RunKind, RunWords
from vkbench_db import schema
from vkbench_db.work import store
from vkbench_detection.confirm.pairs import PairResults, pair_results
from vkbench_scheduler.bundles import keep
from vkbench_scheduler.planning.pairs import PairPlan, more_pairs, submit_pairs
from vkbench_shaders.bundle import packaged_sha

A_CONFIRMATION = Purpose(kind=RunKind.CONFIRMATION)


def device_of(lab: Lab) -> str:
    def keys() -> list[str]:
        with lab.database.reading() as tx:
            return list(tx.execute(select(schema.device.c.key)).scalars())

    until(keys, "no device announces itself", 60)
    return keys()[0]


def pairs(lab: Lab, device: str, old: str, new: str, count: int = 1) -> int:
    with lab.database.transaction() as tx:
        return submit_pairs(
            tx,
            PairPlan(
                case="add/f32/b1_c1_h300_w400",
                variant="portable",
                metric="hot",
                old=Arm(name=old),
                new=Arm(name=new),
                measure_seconds=0.1,
            ),
            devices=[device],
            count=count,
            now=1.0,
            words=RunWords(label="", purpose=A_CONFIRMATION),
        )


def found(lab: Lab, run: int) -> PairResults:
    with lab.database.reading() as tx:
        return pair_results(tx, run)


def ratio(results: PairResults) -> float:
    return median(results.new) / median(results.old)


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("lavapipe")
def test_what_is_slower_and_what_is_wrong_is_found(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(runner="vkbench_worker.runner.main")
    slow, wrong = planted_add(SLOW), planted_add("sum = 0;")
    lab.start_scheduler()
    lab.start("-m", "vkbench_worker.service.main", "llvmpipe", log="worker")
    with lab.database.transaction() as tx:
        for bundle in (slow, wrong):
            keep(tx, bundle, 1.0)
    device, packaged = device_of(lab), packaged_sha()
    slower = pairs(lab, device, packaged, slow.sha, 2)
    faster = pairs(lab, device, slow.sha, packaged)
    lazy = pairs(lab, device, slow.sha, wrong.sha)
    mended = pairs(lab, device, wrong.sha, packaged)
    with lab.database.transaction() as tx:
        more_pairs(tx, slower, 1)
    lab.await_end(slower, faster, lazy, mended, seconds=120)
    lab.check(slower, faster, lazy, mended)
    assert ratio(found(lab, slower)) > 1.05
    assert len(found(lab, slower).old) == 3
    assert ratio(found(lab, faster)) < 1 / 1.05
    assert found(lab, lazy).new_wrong
    assert not found(lab, lazy).old_wrong
    assert found(lab, mended).old_wrong
    assert not found(lab, mended).new_wrong
    ran = (slower, faster, lazy, mended)
    assert not any(found(lab, run).failed or found(lab, run).pending for run in ran)
    log = (lab.folder / "worker.log").read_text()
    assert log.count("bundle_fetched") == 2  # what is packaged is there
    assert log.count("runner_ready") >= 6  # a process a pair
    with lab.database.reading() as tx:
        assert store.has_bundle(tx, packaged)  # the scheduler's own
        attempts = tx.execute(
            select(schema.attempt.c.bundle, schema.attempt.c.outcome, schema.attempt.c.seconds)
            .join(schema.job, schema.job.c.id == schema.attempt.c.job_id)
            .order_by(schema.job.c.run_id)
        ).all()
    assert [row.bundle for row in attempts] == [*[slow.sha] * 3, packaged, wrong.sha, packaged]
    assert [row.outcome for row in attempts].count(Outcome.PASSED) == 4
