"""What jobs take is learned from those that ran last."""

from __future__ import annotations

from dataclasses import replace

import pytest

from databases import Lab
from vkbench.job import Mode, Outcome
from vkbench_db.work import store


def test_recent_seconds_are_means_by_case_and_of_the_device(lab: Lab) -> None:
    device, other = lab.add_device(), lab.add_device("SwiftShader")
    lab.submit(device, [1, 1, 2, 3])
    lab.submit(device, [1], mode=Mode.CORRECTNESS)
    lab.submit(other, [1])
    seconds = iter([1.0, 3.0, 8.0, 100.0, 4.0])
    for job in sorted(lab.pick(device), key=lambda job: job.id):
        outcome = Outcome.CRASHED if job.case.endswith("m3_n1_k256") else Outcome.PASSED
        lab.record(replace(lab.answer(job, outcome), seconds=next(seconds)))
    with lab.database.reading() as tx:
        recent = store.recent_seconds(tx, device)
        assert store.recent_seconds(tx, other) == store.Recent(mean=None)
    case = "mul_mat_vec/q4_0/m{}_n1_k256".format
    assert recent.mean == pytest.approx((1 + 3 + 8 + 4) / 4)
    assert recent.of(case(1), Mode.PERFORMANCE) == pytest.approx(2.0)
    assert recent.of(case(1), Mode.CORRECTNESS) == pytest.approx(4.0)
    assert recent.of(case(3), Mode.PERFORMANCE) == recent.mean


def test_only_the_last_ones_count(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, 10)
    for number, job in enumerate(lab.pick(device)):
        lab.now += 1
        lab.record(replace(lab.answer(job), seconds=float(number)))
    with lab.database.reading() as tx:
        assert store.recent_seconds(tx, device, most=3).mean == pytest.approx(8.0)
