"""Comparisons with peers through the queue: a worker asks the peer and its runner in turns."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cluster import Lab, until
from vkbench.device import DeviceFacts
from vkbench_db.ask import queries
from vkbench_detection.peers.pairs import peer_pairs, uncompared_cases
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.submit import submit

CASES = ("mul_mat/f32/m64_n17_k256", "conv2d/f32/n1_c3_h9_w9_o4_r3_s3")


def devices(lab: Lab) -> list[DeviceFacts]:
    with lab.database.reading() as tx:
        return [row.facts for row in queries.devices(tx)]


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("lavapipe")
def test_a_worker_compares_with_a_peer(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(runner="vkbench_worker.runner.main")
    lab.start_scheduler()
    lab.start("-m", "vkbench_worker.service.main", "llvmpipe", log="worker")
    until(lambda: devices(lab), "no device announces itself", 60)
    selection = Selection(cases=CASES, peers=("numpy",), measure_seconds=0.1)
    run = submit(lab.database, selection, devices(lab)).run.id
    lab.await_end(run, seconds=120)
    lab.check(run)
    assert dict(lab.counts(run)) == {"passed": 5, "skipped": 1}
    with lab.database.reading() as tx:
        [pair] = peer_pairs(tx, run=run)
        [left] = uncompared_cases(tx, run=run)
    assert (pair.case_name, pair.peer) == (CASES[0], "numpy")
    assert min(pair.ours, pair.theirs) > 0
    assert left.reason == "numpy has no conv2d"
