"""The last night's jobs are counted beside those of the night before."""

from __future__ import annotations

from databases import Lab
from vkbench.job import JobState, Outcome
from vkbench_db.ask.nights import NIGHT_SECONDS, Night, last_nights


def nights(lab: Lab) -> tuple[Night, Night]:
    with lab.database.reading() as tx:
        both = last_nights(tx, lab.now)
    assert both
    return both


def run_jobs(lab: Lab, device: str, *ends: Outcome) -> None:
    lab.submit(device, len(ends))
    lab.record(*(lab.answer(job, end) for job, end in zip(lab.pick(device), ends, strict=True)))


def test_jobs_count_in_the_night_in_which_they_ended(lab: Lab) -> None:
    first, second = lab.add_device(), lab.add_device("SwiftShader", "beta")
    run_jobs(lab, second, Outcome.PASSED, Outcome.PASSED)
    lab.now += NIGHT_SECONDS
    run_jobs(lab, first, Outcome.PASSED, Outcome.WRONG, Outcome.SKIPPED)
    lab.submit(first, 4)  # what waits does not count
    last, before = nights(lab)
    assert (last.count(), last.count(JobState.WRONG), last.count(JobState.FAILED)) == (3, 1, 0)
    assert (last.count_of_device(first), last.count_of_device(second)) == (3, 0)
    assert (before.count(), before.count_of_device(second)) == (2, 2)
    assert (last.began, before.until) == (before.until, last.began)


def test_a_lab_that_rests_shows_its_last_night_with_results(lab: Lab) -> None:
    run_jobs(lab, lab.add_device(), Outcome.PASSED)
    ended = lab.now
    lab.now += 40 * NIGHT_SECONDS
    last, before = nights(lab)
    assert (last.until, last.count(), before.count()) == (ended, 1, 0)


def test_a_lab_without_results_has_no_night(lab: Lab) -> None:
    with lab.database.reading() as tx:
        assert last_nights(tx, lab.now) is None
