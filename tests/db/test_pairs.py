"""What paired jobs found, read back: times of both arms, and which of them was wrong."""

from dataclasses import replace

import pytest

from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result, wrong_reason
from vkbench_db import store
from vkbench_db.pairs import PairResults, pair_results

OLD_BUNDLE, NEW_BUNDLE = "0a" * 32, "0b" * 32


@pytest.fixture
def device(lab) -> str:
    return lab.add_device()


def pairs(lab, device: str, count: int) -> int:
    changes = {"mode": Mode.PAIRED, "bundle": NEW_BUNDLE, "against": OLD_BUNDLE, "metric": "hot"}
    return lab.submit(device, ["copy/f32/n1024"] * count, **changes)


def timed(lab, job: Job, old: float, new: float) -> Result:
    hot, cold = lab.answer(replace(job, mode=Mode.PERFORMANCE)).timings
    arms = (replace(hot, metric="old", seconds=old), replace(cold, metric="new", seconds=new))
    return replace(lab.answer(job), timings=arms)


def wrong(lab, job: Job, **arms: str) -> Result:
    return replace(lab.answer(job, Outcome.WRONG), reason=wrong_reason(arms))


def found(lab, run: int) -> PairResults:
    with lab.database.reading() as tx:
        return pair_results(tx, run)


def test_both_arms_stand_in_the_order_of_the_jobs(lab, device) -> None:
    run = pairs(lab, device, 4)
    first, second, third, _ = lab.pick(device)
    lab.record(timed(lab, second, 3e-3, 4e-3), timed(lab, first, 1e-3, 2e-3))
    lab.record(lab.answer(third, Outcome.CRASHED))
    assert found(lab, run) == PairResults(
        old=(1e-3, 3e-3), new=(2e-3, 4e-3), old_wrong="", new_wrong="", failed="", pending=2
    )


def test_a_wrong_arm_is_named(lab, device) -> None:
    run = pairs(lab, device, 3)
    first, second, third = lab.pick(device)
    lab.record(wrong(lab, first, new="n1"), wrong(lab, second, old="o", new="n2"))
    assert (found(lab, run).old_wrong, found(lab, run).new_wrong) == ("o", "n1")
    lab.record(timed(lab, third, 1e-3, 1e-3))
    assert found(lab, run).old == (1e-3,)
    assert found(lab, run).pending == 0


@pytest.mark.parametrize("outcome", [Outcome.CRASHED, Outcome.SKIPPED])
def test_what_was_not_measured_says_why(lab, device, outcome: Outcome) -> None:
    run = pairs(lab, device, 1)
    lab.settle(device, outcome)
    assert found(lab, run).failed == f"because {outcome}"
    assert found(lab, run).pending == 0


def test_cancelled_pairs_are_no_longer_awaited(lab, device) -> None:
    run = pairs(lab, device, 2)
    with lab.database.transaction() as tx:
        store.cancel(tx, run, lab.now)
    assert (found(lab, run).failed, found(lab, run).pending) == ("cancelled", 0)
