"""How far each device is, with a run and with everything."""

from __future__ import annotations

import pytest

from databases import Lab
from vkbench.job import JobState, Mode, Outcome
from vkbench_db.ask.devices import tallies
from vkbench_db.ask.devices.tallies import Tally
from vkbench_db.work import store


def of_run(lab: Lab, run: int) -> list[Tally]:
    with lab.database.reading() as tx:
        return tallies.of_run(tx, run)


def of_fleet(lab: Lab, since: float) -> dict[str, Tally]:
    with lab.database.reading() as tx:
        return {each.device: each for each in tallies.of_fleet(tx, since)}


def test_a_run_has_a_tally_for_each_device_with_its_own_counts(lab: Lab) -> None:
    first, second = lab.add_device(), lab.add_device("SwiftShader", "beta")
    with lab.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.BOTH, selection={}, now=lab.now).id
        jobs = [lab.planned(first, n) for n in range(3)] + [lab.planned(second, 7)]
        store.add_jobs(tx, run, jobs)
    lab.submit(first, 1)  # another run does not count
    one, other = of_run(lab, run)
    assert (one.device, one.host, other.device, other.host) == (first, "alpha", second, "beta")
    assert one.counts == {JobState.QUEUED: 3}
    assert one.left_seconds == pytest.approx(sum(job.estimate_seconds for job in jobs[:3]))
    lab.settle(second, Outcome.WRONG)
    picked = lab.pick(first, 1)
    one, other = of_run(lab, run)
    assert one.counts == {JobState.QUEUED: 2, JobState.DISPATCHED: 1}
    assert other.counts == {JobState.WRONG: 1}
    assert (one.is_finished, other.is_finished, other.left_seconds) == (False, True, 0.0)
    lab.record(lab.answer(picked[0]))
    assert of_run(lab, run)[0].finished == 1


def test_a_run_without_jobs_has_no_tally(lab: Lab) -> None:
    assert of_run(lab, 12345) == []


def test_the_fleet_has_what_waits_and_what_has_ended_since(lab: Lab) -> None:
    first, second = lab.add_device(), lab.add_device("SwiftShader", "beta")
    lab.submit(first, 1)
    lab.settle(first)
    assert of_fleet(lab, lab.now + 1) == {}
    lab.submit(first, 2)
    lab.submit(second, 1)
    lab.settle(second)
    found = of_fleet(lab, lab.now - 1)
    assert found[first].counts == {JobState.PASSED: 1, JobState.QUEUED: 2}
    assert found[second].counts == {JobState.PASSED: 1}
    assert of_fleet(lab, lab.now + 1)[first].counts == {JobState.QUEUED: 2}
