"""Plans of jobs that wait: used once, for that job on that device, and forgotten if never due."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vkbench.job import Job, Mode
from vkbench_shaders.bundle import packaged
from vkbench_worker.runner import plans
from vkbench_worker.runner.plans import Plans
from vkbench_worker.runtime.errors import Unsupported
from vkbench_worker.runtime.null import NullDevice

FACTS = NullDevice().facts


def job(number: int, case: str = "copy/f32/n31") -> Job:
    return Job(id=number, token=1, case=case, mode=Mode.CORRECTNESS, limit_seconds=1.0)


def test_a_plan_is_taken_once() -> None:
    kept, due = Plans(), job(1)
    made = kept.make(packaged(), due, FACTS)
    assert kept.take(packaged(), due, FACTS) is made
    again = kept.take(packaged(), due, FACTS)
    assert again is not made
    assert again == made


@pytest.mark.parametrize(
    "other",
    [job(2), replace(job(1), case="copy/f32/n32"), replace(job(1), variant="portable")],
)
def test_another_job_has_a_plan_of_its_own(other: Job) -> None:
    kept = Plans()
    made = kept.make(packaged(), job(1), FACTS)
    taken = kept.take(packaged(), other, FACTS)
    assert taken is not made
    assert taken.problem.case.name == other.case


def test_another_device_has_a_plan_of_its_own() -> None:
    kept = Plans()
    made = kept.make(packaged(), job(1), FACTS)
    assert kept.take(packaged(), job(1), replace(FACTS, subgroup_size=4)) is not made


def test_a_job_that_cannot_be_planned_says_so_each_time() -> None:
    kept, wrong = Plans(), replace(job(1), variant="coopmat")
    for ask in (kept.make, kept.take):
        with pytest.raises(Unsupported, match="copy has no variant coopmat"):
            ask(packaged(), wrong, FACTS)


def test_plans_of_jobs_that_are_never_due_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "_MOST_KEPT", 3)
    kept = Plans()
    made = [kept.make(packaged(), job(number), FACTS) for number in range(5)]
    taken = [kept.take(packaged(), job(number), FACTS) for number in range(5)]
    same = [one is other for one, other in zip(made, taken, strict=True)]
    assert same == [False, False, True, True, True]
