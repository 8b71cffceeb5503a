"""A case that passed and now crashes is a regression, if the case is to blame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import insert, text

from databases import Lab, one_engine
from vkbench.device import Environment
from vkbench.job import Job, Mode, Outcome
from vkbench.messages.wire import Announcement
from vkbench.result import DRIVER_FAILED, UNOPENED, Result
from vkbench_db import schema
from vkbench_db.work import store
from vkbench_detection.find.failures import PATIENCE_SECONDS
from vkbench_detection.regress import news
from vkbench_detection.regress.announcements import unannounced_news
from vkbench_detection.steps import Detected, detect

NIGHT = 86_400.0
DRIVER = "550.1"

REGRESSIONS = "SELECT direction, cause, state, title FROM regression ORDER BY id"
CHANGES = "SELECT direction, method, before_job, after_job FROM change_point ORDER BY id"
EVIDENCE = "SELECT note FROM change_point_event WHERE state = 'confirmed' ORDER BY id"


def rows(lab: Lab, question: str) -> list[tuple[Any, ...]]:
    with lab.database.reading() as tx:
        return [tuple(row) for row in tx.execute(text(question))]


def at(lab: Lab, result: Result) -> Result:
    """The result of an attempt that took a second, and the clock moves on by two."""
    lab.now += 2
    return replace(result, started=lab.now - 1)


def record(lab: Lab, job: Job, outcome: Outcome = Outcome.PASSED, **changes: Any) -> None:
    result = at(lab, lab.answer(job, outcome))
    lab.record(replace(result, **changes))


def do(lab: Lab, device: str, case: int, *outcomes: Outcome, **changes: Any) -> None:
    """A run of one case whose tries end so; the last outcome is that of all further ones."""
    lab.submit(device, [case])
    last = list(outcomes or (Outcome.PASSED,))
    while jobs := lab.pick(device):
        for job in jobs:
            record(lab, job, last.pop(0) if len(last) > 1 else last[0], **changes)


def judged(lab: Lab) -> list[tuple[Any, ...]]:
    detect(lab.database, lab.now)
    return rows(lab, REGRESSIONS)


@pytest.fixture
def device(lab: Lab) -> str:
    """A device on which five cases passed last night."""
    found = lab.add_device()
    for case in range(1, 6):
        do(lab, found, case)
    assert judged(lab) == []
    lab.now += NIGHT
    return found


FAULTS = [
    (Outcome.CRASHED, {}, "3 tries crashed: because crashed"),
    (Outcome.TIMED_OUT, {}, "3 tries timed out: because timed_out"),
    (Outcome.DEVICE_LOST, {}, "3 tries lost the device: because device_lost"),
    (
        Outcome.ERROR,
        {"telemetry": {DRIVER_FAILED: 1.0}, "reason": "vkCreateComputePipelines: VkResult -13"},
        "3 tries failed in the driver: vkCreateComputePipelines: VkResult -13",
    ),
]


@one_engine
@pytest.mark.parametrize(("outcome", "changes", "evidence"), FAULTS)
def test_a_case_that_passed_and_fails_is_a_regression(
    lab: Lab, device: str, outcome: Outcome, changes: dict[str, Any], evidence: str
) -> None:
    do(lab, device, 1, outcome, **changes)
    [(direction, cause, state, title)] = judged(lab)
    assert (direction, cause, state) == ("failed", "host", "open")
    assert title == (
        "mul_mat_vec failed on llvmpipe of alpha since 22 Sep: neither kernels nor driver changed"
    )
    assert rows(lab, CHANGES) == [("failed", "verdict", 1, 6)]
    assert rows(lab, EVIDENCE) == [(evidence,)]
    assert rows(lab, "SELECT count(*) FROM fresh") == [(0,)]


@one_engine
@pytest.mark.parametrize(
    ("outcomes", "changes"),
    [
        ((Outcome.WORKER_DIED,), {}),
        ((Outcome.ERROR,), {}),  # a missing file, a refused bundle, a bug of ours
        ((Outcome.DEVICE_LOST,), {"telemetry": {UNOPENED: 1.0}}),  # there was no device to lose
        ((Outcome.CRASHED, Outcome.CRASHED, Outcome.WORKER_DIED), {}),
        ((Outcome.CRASHED, Outcome.CRASHED, Outcome.PASSED), {}),
    ],
)
def test_what_is_not_of_the_case_is_no_regression(
    lab: Lab, device: str, outcomes: Sequence[Outcome], changes: dict[str, Any]
) -> None:
    do(lab, device, 1, *outcomes, **changes)
    assert judged(lab) == []
    assert rows(lab, "SELECT count(*) FROM fresh") == [(0,)]


def test_lost_and_cancelled_jobs_are_no_regressions(lab: Lab, device: str) -> None:
    lab.submit(device, [1])
    for _ in range(31):
        sent = [(job.id, job.token) for job in lab.pick(device)]
        with lab.database.transaction() as tx:
            store.return_lost(tx, sent, lab.now)
    run = lab.submit(device, [2])
    with lab.database.transaction() as tx:
        store.cancel(tx, run, lab.now)
    assert rows(lab, "SELECT state FROM job WHERE id > 5 ORDER BY id") == [
        ("failed",),
        ("cancelled",),
    ]
    assert judged(lab) == []


def test_crashes_of_several_kinds_are_counted(lab: Lab, device: str) -> None:
    do(lab, device, 1, Outcome.CRASHED, Outcome.DEVICE_LOST, Outcome.CRASHED)
    assert len(judged(lab)) == 1
    assert rows(lab, EVIDENCE) == [("2 tries crashed, 1 try lost the device: because crashed",)]


@one_engine
def test_failed_from_the_first_is_no_change(lab: Lab, device: str) -> None:
    do(lab, device, 9, Outcome.CRASHED)
    lab.now += NIGHT
    do(lab, device, 9, Outcome.CRASHED)
    assert judged(lab) == []


def test_a_wrong_case_that_fails_is_no_second_regression(lab: Lab, device: str) -> None:
    do(lab, device, 1, Outcome.WRONG)
    do(lab, device, 1, Outcome.CRASHED)
    assert [row[0] for row in judged(lab)] == ["wrong"]


@one_engine
def test_a_failed_case_that_is_wrong_is_wrong_too(lab: Lab, device: str) -> None:
    do(lab, device, 1, Outcome.CRASHED)
    do(lab, device, 1, Outcome.WRONG)
    assert {row[0] for row in judged(lab)} == {"wrong", "failed"}


@one_engine
def test_it_is_one_change_however_often_it_fails(lab: Lab, device: str) -> None:
    do(lab, device, 1, Outcome.CRASHED)
    do(lab, device, 1, Outcome.CRASHED)
    judged(lab)
    lab.now += NIGHT
    do(lab, device, 1, Outcome.DEVICE_LOST)
    assert len(judged(lab)) == 1
    assert rows(lab, CHANGES) == [("failed", "verdict", 1, 6)]


@one_engine
def test_checks_and_timings_that_fail_are_changes_of_their_own(lab: Lab, device: str) -> None:
    for outcome in (Outcome.PASSED, Outcome.CRASHED):
        for mode in (Mode.CORRECTNESS, Mode.PERFORMANCE):
            lab.submit(device, [1], mode=mode)
            while jobs := lab.pick(device):
                for job in jobs:
                    record(lab, job, outcome)
        lab.now += NIGHT
    assert len(judged(lab)) == 1
    assert rows(lab, CHANGES) == [("failed", "verdict", 6, 8), ("failed", "verdict", 7, 9)]


@one_engine
def test_it_is_fixed_when_it_passes_and_then_verified(lab: Lab, device: str) -> None:
    do(lab, device, 1, Outcome.CRASHED)
    assert [row[2] for row in judged(lab)] == ["open"]
    do(lab, device, 1, Outcome.WRONG)
    assert ("failed", "host", "open") in {row[:3] for row in judged(lab)}
    do(lab, device, 1)
    assert {row[2] for row in judged(lab)} == {"fixed"}
    for _ in range(4):
        lab.now += NIGHT
        do(lab, device, 1)
    assert {row[2] for row in judged(lab)} == {"verified"}


def test_people_are_alerted_to_it(lab: Lab, device: str) -> None:
    do(lab, device, 1, Outcome.CRASHED)
    judged(lab)
    with lab.database.reading() as tx:
        assert unannounced_news(tx, ["chat"], lab.now) == [(1, "open", "chat")]
        told = news.of_regression(tx, 1)
    assert [(each.direction, each.ratio) for each in told.changes] == [("failed", None)]


def test_one_that_fails_again_opens_it_again(lab: Lab, device: str) -> None:
    for outcome, state in (
        (Outcome.CRASHED, "open"),
        (Outcome.PASSED, "fixed"),
        (Outcome.CRASHED, "open"),
    ):
        do(lab, device, 1, outcome)
        assert [row[2] for row in judged(lab)] == [state]


@one_engine
def test_trials_have_no_regressions(lab: Lab, device: str) -> None:
    with lab.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.BOTH, selection={}, now=lab.now, track="").id
        store.add_jobs(tx, run, [lab.planned(device, 1)])
    while jobs := lab.pick(device):
        record(lab, jobs[0], Outcome.CRASHED)
    assert judged(lab) == []
    assert rows(lab, "SELECT count(*) FROM fresh") == [(0,)]


def updated(lab: Lab, environment: Environment) -> str:
    """Another driver's environment, which a worker has announced."""
    new = replace(environment, driver_version=DRIVER)
    announcement = Announcement(worker="alpha:1", facts=lab.facts(), environment=new, bundle="b")
    with lab.database.transaction() as tx:
        store.register_device(tx, announcement, lab.now)
    return new.hash


def test_cases_that_fail_with_one_driver_are_one_regression(
    lab: Lab, device: str, environment: Environment
) -> None:
    """They fail one after the other: only what runs afterwards shows that the device is well."""
    new = updated(lab, environment)
    for case in range(1, 5):
        do(lab, device, case, Outcome.DEVICE_LOST, environment=new)
    title = f"mul_mat_vec failed on llvmpipe of alpha since driver {DRIVER} (22 Sep)"
    assert judged(lab) == [("failed", "environment", "open", title)]
    assert rows(lab, "SELECT count(*) FROM v_regressions") == [(1,)]
    assert detect(lab.database, lab.now) == Detected()  # failures that wait are not looked at again
    do(lab, device, 5, environment=new)
    assert len(judged(lab)) == 1
    assert rows(lab, "SELECT count(*) FROM v_regressions") == [(4,)]
    assert rows(lab, "SELECT count(*) FROM fresh") == [(0,)]


def test_jobs_that_were_recorded_together_ran_one_after_the_other(lab: Lab, device: str) -> None:
    """What the device did before a failure does not decide on it, though it came in with it."""
    lab.submit(device, [3])
    [before] = lab.pick(device)
    done = at(lab, lab.answer(before))
    do(lab, device, 1, Outcome.DEVICE_LOST)
    lab.submit(device, [2])
    for _ in range(2):
        [job] = lab.pick(device)
        record(lab, job, Outcome.DEVICE_LOST)
    [last] = lab.pick(device)
    lab.record(done, at(lab, lab.answer(last, Outcome.DEVICE_LOST)))
    assert len(judged(lab)) == 1
    assert len(rows(lab, CHANGES)) == 1
    do(lab, device, 4)
    judged(lab)
    assert len(rows(lab, CHANGES)) == 2


@one_engine
def test_a_device_that_is_broken_has_one_culprit(lab: Lab, device: str) -> None:
    """What follows the case that broke it is not to blame, though it ends well after a reboot."""
    for case in range(1, 5):
        do(lab, device, case, Outcome.DEVICE_LOST)
    judged(lab)
    do(lab, device, 5, worker="alpha:2")
    judged(lab)
    assert rows(lab, CHANGES) == [("failed", "verdict", 1, 6)]
    do(lab, device, 5)
    judged(lab)
    assert rows(lab, CHANGES) == [("failed", "verdict", 1, 6)]


@one_engine
def test_a_device_that_waits_for_long_may_be_another(lab: Lab, device: str) -> None:
    do(lab, device, 1, Outcome.DEVICE_LOST)
    do(lab, device, 2, Outcome.DEVICE_LOST)
    lab.now += PATIENCE_SECONDS
    do(lab, device, 5)
    judged(lab)
    assert rows(lab, CHANGES) == [("failed", "verdict", 1, 6)]
    assert rows(lab, "SELECT count(*) FROM fresh") == [(0,)]


def test_a_device_that_was_resumed_may_have_been_repaired(lab: Lab, device: str) -> None:
    do(lab, device, 1, Outcome.CRASHED)
    do(lab, device, 2, Outcome.CRASHED)
    with lab.database.transaction() as tx:
        store.pause(tx, device, store.Pause(reason="broken", by="ann", at=lab.now))
        store.resume(tx, device, lab.now + 1)
    do(lab, device, 5)
    judged(lab)
    assert rows(lab, CHANGES) == [("failed", "verdict", 1, 6)]


@one_engine
def test_one_that_passes_before_the_device_is_known_to_be_well_is_not_blamed(
    lab: Lab, device: str
) -> None:
    do(lab, device, 1, Outcome.CRASHED)
    do(lab, device, 2, Outcome.CRASHED)
    do(lab, device, 2)
    judged(lab)
    assert rows(lab, CHANGES) == [("failed", "verdict", 1, 6)]


@one_engine
def test_a_shorter_limit_is_no_regression(lab: Lab, device: str) -> None:
    for limit in (30.0, 60.0):
        lab.submit(device, [1], limit_seconds=limit)
        while jobs := lab.pick(device):
            record(lab, jobs[0], Outcome.TIMED_OUT)
        assert len(judged(lab)) == (limit == 60.0)


BUNDLES = ("b1" * 32, "b2" * 32)


@pytest.mark.parametrize(
    ("manifest", "cause", "since"),
    [
        (
            "another kernel changed, ours is {kernel}",
            "host",
            "since 22 Sep: neither kernels nor driver changed",
        ),
        ("our kernel changed", "kernel", "since b2b2b2b (22 Sep)"),
    ],
)
def test_the_bundle_is_the_cause_where_it_has_another_kernel(
    lab: Lab, device: str, manifest: str, cause: str, since: str
) -> None:
    do(lab, device, 1, bundle=BUNDLES[0])
    row = {"sha": BUNDLES[1], "name": "", "manifest": manifest.format(kernel="5a" * 32)}
    with lab.database.transaction() as tx:
        tx.execute(insert(schema.bundle), [row | {"created_at": lab.now}])
    do(lab, device, 1, Outcome.CRASHED, bundle=BUNDLES[1], kernel_sha="")
    [(_, found, _, said)] = judged(lab)
    assert found == cause
    assert said == f"mul_mat_vec failed on llvmpipe of alpha {since}"
