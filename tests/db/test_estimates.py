"""What jobs take is learned from those that ran last."""

from __future__ import annotations

from dataclasses import replace

import pytest

from databases import Lab
from vkbench.job import Mode, Outcome
from vkbench_db.work import store


def test_recent_seconds_are_means_by_case_and_of_all_checks(lab: Lab) -> None:
    device, other = lab.add_device(), lab.add_device("SwiftShader")
    lab.submit(device, [1, 1, 2, 3])
    lab.submit(device, [1, 2], mode=Mode.CORRECTNESS)
    lab.submit(other, [1])
    seconds = iter([1.0, 3.0, 8.0, 100.0, 4.0, 6.0])
    for job in sorted(lab.pick(device), key=lambda job: job.id):
        outcome = Outcome.CRASHED if job.case.endswith("m3_n1_k256") else Outcome.PASSED
        lab.record(replace(lab.answer(job, outcome), seconds=next(seconds)))
    with lab.database.reading() as tx:
        recent = store.recent_seconds(tx, device)
        assert store.recent_seconds(tx, other) == store.Recent()
    case = "mul_mat_vec/q4_0/m{}_n1_k256".format
    assert recent.of(case(1), Mode.PERFORMANCE, planned=9.0) == pytest.approx(2.0)
    assert recent.of(case(3), Mode.PERFORMANCE, planned=9.0) == 9.0
    assert recent.of(case(1), Mode.CORRECTNESS, planned=9.0) == pytest.approx(4.0)
    assert recent.of(case(3), Mode.CORRECTNESS, planned=9.0) == pytest.approx(5.0)
    assert store.Recent().of(case(3), Mode.CORRECTNESS, planned=9.0) == 9.0


def test_only_the_last_ones_count(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, 10, mode=Mode.CORRECTNESS)
    for number, job in enumerate(lab.pick(device)):
        lab.now += 1
        lab.record(replace(lab.answer(job), seconds=float(number)))
    with lab.database.reading() as tx:
        assert store.recent_seconds(tx, device, most=3).check == pytest.approx(8.0)
