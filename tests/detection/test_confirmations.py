"""What is suspected is measured again: pairs tell kernel, environment, host and chance apart."""

from __future__ import annotations

from dataclasses import replace
from math import sin

import pytest
from sqlalchemy import delete, select, update

from databases import ENVIRONMENT, Lab, one_engine
from kept_labs import After
from paired_nights import FIRST, NIGHT, SECOND, Nights, rows
from vkbench.device import ICD_LIBRARY, DriverCopy, Environment, OwnDrivers
from vkbench.job import Arm, Job, Outcome
from vkbench.result import Result, WrongArm
from vkbench.run import Purpose, RunKind, RunWords
from vkbench_db import schema
from vkbench_db.work import store
from vkbench_detection.changes.change_point import Method
from vkbench_detection.changes.decisions import Suspicion
from vkbench_detection.changes.transitions import suspect
from vkbench_detection.confirm.confirmations import PATIENCE_SECONDS
from vkbench_detection.confirm.fleet import WATCHED_SECONDS
from vkbench_detection.confirm.turns import EVENT, MOST_RUNNING, SAMPLE
from vkbench_detection.regress.stages import RegressionStage
from vkbench_detection.series.placing import place
from vkbench_detection.steps import conclude, detect, scan
from vkbench_scheduler.planning import pairs
from vkbench_scheduler.watch import confirm

A_CONFIRMATION = Purpose(kind=RunKind.CONFIRMATION)


@pytest.fixture
def nights(after: After) -> Nights:
    """Forty quiet nights; both bundles are kept."""
    found: Nights = after(forty_nights)
    return found


def forty_nights(lab: Lab) -> Nights:
    with lab.database.transaction() as tx:
        for each in (FIRST, SECOND):
            store.store_bundle(tx, each, lab.now)
    made = Nights(lab, lab.add_device(), environment=ENVIRONMENT)
    made.pass_by(40)
    assert rows(made, "SELECT count(*) FROM change_point WHERE state = 'confirmed'") == [(0,)]
    return made


CHANGES = "SELECT direction, state, cause FROM change_point ORDER BY id DESC LIMIT 1"
REGRESSIONS = "SELECT direction, cause, state FROM regression"
PAIRS = "SELECT DISTINCT job.against, job.bundle FROM job WHERE mode = 'paired'"


def test_a_slower_kernel(nights: Nights) -> None:
    nights.bundle = SECOND.sha
    nights.pass_by(1, 1.05)
    assert rows(nights, CHANGES) == [("slower", "suspected", "")]
    nights.confirm(lambda sha: 1.05 if sha == SECOND.sha else 1.0)
    assert rows(nights, CHANGES) == [("slower", "confirmed", "kernel")]
    assert rows(nights, REGRESSIONS) == [("slower", "kernel", "open")]
    assert rows(nights, PAIRS) == [(FIRST.sha, SECOND.sha)]
    [(ratio, p, pairs)] = rows(nights, "SELECT ratio, p, pairs FROM confirmation")
    assert ratio == pytest.approx(1.05, abs=0.01)
    assert p < 0.001
    assert pairs == 8
    states = "SELECT state FROM change_point_event ORDER BY id"
    assert [state for (state,) in rows(nights, states)][-3:] == [
        *("suspected", "confirming", "confirmed"),
    ]
    nights.pass_by(30, 1.05)  # a new level, which needs no second alert
    assert len(rows(nights, REGRESSIONS)) == 1


@one_engine
def test_a_faster_kernel_is_no_regression(nights: Nights) -> None:
    nights.bundle = SECOND.sha
    nights.pass_by(1, 0.95)
    nights.confirm(lambda sha: 0.95 if sha == SECOND.sha else 1.0)
    assert rows(nights, REGRESSIONS) == [("faster", "kernel", "open")]


@one_engine
def test_a_shift_that_is_gone_is_nothing(nights: Nights) -> None:
    """The host was busy that night; the kernels are as fast as ever."""
    nights.bundle = SECOND.sha
    nights.pass_by(1, 1.2)
    nights.confirm(lambda sha: 1.0)
    assert rows(nights, CHANGES) == [("slower", "dismissed", "")]
    assert rows(nights, REGRESSIONS) == []


@one_engine
@pytest.mark.parametrize("new_kernel", [True, False])
def test_a_shift_that_stays_is_the_host_s(nights: Nights, new_kernel: bool) -> None:
    """Load that goes on meets both bundles alike: no kernel is to blame."""
    nights.bundle = SECOND.sha if new_kernel else FIRST.sha
    nights.pass_by(1, 1.2)
    nights.confirm(lambda sha: 1.2)
    assert rows(nights, CHANGES) == [("slower", "ambiguous", "")]
    nights.last(1.2, lambda sha: 1.2)
    assert rows(nights, CHANGES) == [("slower", "confirmed", "host")]
    assert rows(nights, REGRESSIONS) == [("slower", "host", "open")]


@one_engine
def test_another_driver(nights: Nights) -> None:
    nights.environment = replace(nights.environment, driver_version="23.1")
    nights.last(1.1, lambda sha: 1.1)
    assert rows(nights, CHANGES) == [("slower", "confirmed", "environment")]
    [(title,)] = rows(nights, "SELECT title FROM regression")
    assert "since driver 23.1" in title


OLD, NEW = "a" * 64, "b" * 64  # drivers
NOTE = "SELECT note FROM change_point_event ORDER BY id DESC LIMIT 1"


def update_driver(nights: Nights, *kept: str) -> None:
    """The host's driver becomes another one, and its worker has copies of these."""
    own = tuple(DriverCopy(name=sha[:1], sha=sha, library=sha[:12]) for sha in kept)
    for version, sha in (("22.3.6", OLD), ("25.0.7", NEW)):
        extra = {ICD_LIBRARY: sha[:12]}
        nights.environment = replace(ENVIRONMENT, driver_version=version, extra=extra)
        nights.own_drivers = OwnDrivers(copies=own)
        if sha == OLD:
            nights.pass_by(2)


def test_a_driver_is_timed_against_the_one_before(nights: Nights) -> None:
    update_driver(nights, OLD, NEW)
    nights.pass_by(1, 1.1)
    nights.confirm(lambda sha: 1.1 if sha == NEW else 1.0)
    assert rows(nights, CHANGES) == [("slower", "confirmed", "driver")]
    assert rows(nights, PAIRS) == [(OLD, NEW)]
    assert rows(nights, NOTE) == [("8 pairs of both drivers differ",)]
    [(title,)] = rows(nights, "SELECT title FROM regression")
    assert " since driver llvmpipe 22.3.6 → llvmpipe 25.0.7 (" in title


@one_engine
def test_drivers_that_are_equally_fast_are_not_to_blame(nights: Nights) -> None:
    update_driver(nights, OLD, NEW)
    nights.last(1.1, lambda sha: 1.1)
    assert rows(nights, CHANGES) == [("slower", "confirmed", "environment")]
    [(note,)] = rows(nights, NOTE)
    assert note.endswith("both drivers are equally fast, and other software is another")


@one_engine
def test_a_driver_that_is_not_kept_is_told(nights: Nights) -> None:
    update_driver(nights, NEW)
    nights.last(1.1, lambda sha: 1.1)
    assert rows(nights, CHANGES) == [("slower", "confirmed", "environment")]
    assert rows(nights, PAIRS) == [(FIRST.sha, FIRST.sha)]
    [(note,)] = rows(nights, NOTE)
    assert note.endswith("in turns: the files of the old driver are not kept on its host")


@one_engine
def test_a_driver_that_does_not_load_any_more_is_told(nights: Nights) -> None:
    update_driver(nights, OLD, NEW)
    nights.pass_by(1, 1.1)
    confirm.step(nights.lab.database, nights.lab.now)
    nights.lab.settle(nights.device, Outcome.SKIPPED)
    nights.last(1.1, lambda sha: 1.1)
    assert rows(nights, CHANGES) == [("slower", "confirmed", "environment")]
    assert rows(nights, PAIRS) == [(OLD, NEW), (FIRST.sha, FIRST.sha)]
    [(note,)] = rows(nights, NOTE)
    assert note.endswith("in turns: no pair of both drivers could be measured")


@one_engine
def test_driver_and_kernel_at_once(nights: Nights) -> None:
    """The pairs, both under the new driver, tell them apart."""
    nights.environment = replace(nights.environment, driver_version="23.1")
    nights.bundle = SECOND.sha
    nights.last(1.1, lambda sha: 1.1)
    assert rows(nights, CHANGES) == [("slower", "confirmed", "environment")]


@one_engine
def test_an_old_bundle_that_is_not_kept(nights: Nights) -> None:
    with nights.lab.database.transaction() as tx:
        link = schema.bundle_blob.c
        tx.execute(delete(schema.bundle_blob).where(link.bundle == FIRST.sha))
    nights.bundle = SECOND.sha
    nights.pass_by(1, 1.1)
    nights.confirm(lambda sha: 1.1)
    assert rows(nights, PAIRS) == [(SECOND.sha, SECOND.sha)]
    assert rows(nights, CHANGES) == [("slower", "confirmed", "kernel")]


def wrong_pair(nights: Nights, job: Job) -> Result:
    """A pair whose new outputs are wrong."""
    answer = nights.lab.answer(job, Outcome.WRONG)
    assert answer.verdict
    return replace(answer, verdict=replace(answer.verdict, wrong_arm=WrongArm.NEW))


@one_engine
def test_wrong_and_fast_is_wrong(nights: Nights) -> None:
    nights.bundle = SECOND.sha
    nights.pass_by(1, 0.8)
    confirm.step(nights.lab.database, nights.lab.now)
    jobs = nights.lab.pick(nights.device)
    nights.lab.record(*(wrong_pair(nights, job) for job in jobs))
    confirm.step(nights.lab.database, nights.lab.now)
    found = "SELECT direction, state FROM change_point WHERE method <> 'screen' OR ratio < 0.9"
    assert sorted(rows(nights, found)) == [("faster", "dismissed"), ("wrong", "confirmed")]
    assert rows(nights, REGRESSIONS) == [("wrong", "kernel", "open")]


def test_an_absent_device_is_waited_for_and_then_left_to_history(nights: Nights) -> None:
    nights.pass_by(1, 1.1)
    nights.lab.now += 3600
    confirm.step(nights.lab.database, nights.lab.now)  # its worker was not heard of for an hour
    assert rows(nights, CHANGES) == [("slower", "suspected", "")]
    nights.announce()
    confirm.step(nights.lab.database, nights.lab.now)
    assert rows(nights, CHANGES) == [("slower", "confirming", "")]
    nights.lab.now += PATIENCE_SECONDS + 1
    confirm.step(nights.lab.database, nights.lab.now)
    assert rows(nights, CHANGES) == [("slower", "ambiguous", "")]
    nights.pass_by(12, 1.1)
    with nights.lab.database.reading() as tx:
        series = tx.execute(select(schema.series.c.id)).scalars().all()
    scan(nights.lab.database, series, nights.lab.now + WATCHED_SECONDS + 1)
    assert ("slower", "confirmed", "host") in rows(
        nights, "SELECT direction, state, cause FROM change_point"
    )


@one_engine
def test_failed_pairs_decide_nothing(nights: Nights) -> None:
    nights.pass_by(1, 1.1)
    for _ in range(10):
        confirm.step(nights.lab.database, nights.lab.now)
        for _ in range(3):
            jobs = nights.lab.pick(nights.device)
            nights.lab.record(*(nights.lab.answer(job, Outcome.CRASHED) for job in jobs))
    assert rows(nights, CHANGES) == [("slower", "ambiguous", "")]


def test_a_busy_host_is_one_event(nights: Nights) -> None:
    """All series of a device are suspected: a few are measured again, and speak for the others."""
    nights.cases = 40
    nights.pass_by(30)
    nights.confirm(lambda sha: 1.0)
    nights.pass_by(1, 1.3)
    suspected = "SELECT count(*) FROM change_point WHERE state = 'suspected'"
    [(before,)] = rows(nights, suspected)
    assert before > 2 * EVENT
    measured = "SELECT count(*) FROM confirmation WHERE finished_at IS NULL"
    confirm.step(nights.lab.database, nights.lab.now)
    assert rows(nights, measured) == [(min(SAMPLE, MOST_RUNNING),)]
    nights.confirm(lambda sha: 1.3)
    assert rows(nights, suspected) == [(0,)]
    nights.last(1.3, lambda sha: 1.3)
    [(again,)] = rows(nights, "SELECT count(*) FROM confirmation WHERE ratio > 1.2")
    assert again <= 2 * SAMPLE
    assert rows(nights, REGRESSIONS) == [("slower", "host", RegressionStage.OPEN)]
    [(members,)] = rows(nights, "SELECT count(*) FROM regression_member")
    assert members >= before


def test_two_schedulers_are_one(nights: Nights) -> None:
    nights.pass_by(1, 1.1)
    for _ in range(2):
        confirm.step(nights.lab.database, nights.lab.now)
    assert rows(nights, "SELECT count(*) FROM confirmation WHERE finished_at IS NULL") == [(1,)]


def test_paused_devices_measure_nothing(nights: Nights) -> None:
    nights.pass_by(1, 1.1)
    with nights.lab.database.transaction() as tx:
        tx.execute(update(schema.device).values(paused=True))
    confirm.step(nights.lab.database, nights.lab.now)
    assert rows(nights, CHANGES) == [("slower", "suspected", "")]


@pytest.mark.parametrize("is_served", [True, False])
def test_what_the_history_finds(lab: Lab, environment: Environment, is_served: bool) -> None:
    """A change in a series too young for the screen: measured again where a worker can."""
    with lab.database.transaction() as tx:
        store.store_bundle(tx, FIRST, lab.now)
    young = Nights(lab, lab.add_device(), environment=environment)
    young.pass_by(9)
    young.pass_by(9, 1.1)
    assert rows(young, "SELECT count(*) FROM change_point") == [(0,)]
    with lab.database.reading() as tx:
        series = tx.execute(select(schema.series.c.id)).scalars().all()
    lab.now += 1 if is_served else WATCHED_SECONDS + 1
    for _ in range(2):
        scan(lab.database, series, lab.now)
    method = "SELECT method, before_job, after_job FROM change_point"
    assert rows(young, method) == [("history", 9, 10)]
    if not is_served:
        assert rows(young, CHANGES) == [("slower", "confirmed", "host")]
        return
    assert rows(young, CHANGES) == [("slower", "suspected", "")]
    young.confirm(lambda sha: 1.1)
    assert rows(young, CHANGES) == [("slower", "confirmed", "host")]
    scan(lab.database, series, lab.now)
    assert len(rows(young, method)) == 1


@one_engine
def test_histories_wait_a_day_for_more_results(nights: Nights) -> None:
    from vkbench_detection.find.history import due_series

    with nights.lab.database.reading() as tx:
        series = tx.execute(select(schema.series.c.id)).scalars().all()
    scan(nights.lab.database, series, nights.lab.now)
    nights.pass_by(1)
    with nights.lab.database.reading() as tx:
        assert due_series(tx, nights.lab.now + 3600, 10) == []
        assert due_series(tx, nights.lab.now + NIGHT + 1, 10) == series


def test_a_device_that_is_gone_is_not_waited_for(lab: Lab, environment: Environment) -> None:
    """Its last results came and were screened while a worker served it; none come any more."""
    from vkbench_detection.find.history import due_series

    with lab.database.transaction() as tx:
        store.store_bundle(tx, FIRST, lab.now)
    young = Nights(lab, lab.add_device(), environment=environment)
    young.pass_by(9)
    young.pass_by(9, 1.1)
    with lab.database.reading() as tx:
        series = tx.execute(select(schema.series.c.id)).scalars().all()
    scan(lab.database, series, lab.now + 1)
    assert rows(young, CHANGES) == [("slower", "suspected", "")]
    later = lab.now + WATCHED_SECONDS + 2
    with lab.database.reading() as tx:
        assert due_series(tx, lab.now + 3600, 10) == []
        assert due_series(tx, later, 10) == series
    scan(lab.database, series, later)
    assert rows(young, CHANGES) == [("slower", "confirmed", "host")]
    with lab.database.reading() as tx:
        assert due_series(tx, later + 2 * WATCHED_SECONDS, 10) == []


def test_cancelled_pairs_are_not_asked_for_again(nights: Nights) -> None:
    nights.bundle = SECOND.sha
    nights.pass_by(1, 1.2)
    confirm.step(nights.lab.database, nights.lab.now)
    first, *_ = nights.lab.pick(nights.device)
    nights.lab.record(nights.pair(first, lambda sha: 1.2 if sha == SECOND.sha else 1.0))
    with nights.lab.database.transaction() as tx:
        store.cancel(tx, first.run, nights.lab.now)
    for _ in range(2):
        confirm.step(nights.lab.database, nights.lab.now)
    assert rows(nights, "SELECT count(*) FROM job WHERE state = 'queued'") == [(0,)]
    assert rows(nights, CHANGES) == [("slower", "ambiguous", "")]


def test_pairs_of_others_do_not_mend_what_a_pair_found_wrong(nights: Nights) -> None:
    """A wrong pair stands in no chain of its own: what the series' own runs say counts."""
    test_wrong_and_fast_is_wrong(nights)
    [(variant,)] = rows(nights, "SELECT DISTINCT variant FROM job WHERE mode = 'paired'")
    nights.lab.now += 1
    with nights.lab.database.transaction() as tx:
        pairs.submit_pairs(
            tx,
            pairs.PairPlan(
                case="mul_mat_vec/q4_0/m1_n1_k256",
                variant=variant,
                metric="hot",
                old=Arm(name=FIRST.sha),
                new=Arm(name=FIRST.sha),
            ),
            devices=[nights.device],
            count=8,
            now=nights.lab.now,
            words=RunWords(label="", purpose=A_CONFIRMATION),
        )
    jobs = nights.lab.pick(nights.device)
    nights.lab.record(*(nights.pair(job, lambda sha: 1.0) for job in jobs))
    for _ in range(2):
        detect(nights.lab.database, nights.lab.now)
        conclude(nights.lab.database, nights.lab.now)
    assert rows(nights, REGRESSIONS) == [("wrong", "kernel", "open")]
    nights.bundle = FIRST.sha
    nights.pass_by(1)
    assert rows(nights, REGRESSIONS) == [("wrong", "kernel", "fixed")]


def test_new_kernels_do_not_speak_for_old_ones(nights: Nights) -> None:
    """A busy host, and a bundle with three new kernels of four, whose old ones are not kept."""
    nights.cases, nights.untouched = 40, 10
    nights.pass_by(30)
    nights.confirm(lambda sha: 1.0)
    with nights.lab.database.transaction() as tx:
        link = schema.bundle_blob.c
        tx.execute(delete(schema.bundle_blob).where(link.bundle == FIRST.sha))
    nights.bundle = SECOND.sha
    nights.last(1.3, lambda sha: 1.3)
    blamed = (
        "SELECT count(*) FROM change_point"
        " WHERE cause = 'kernel' AND before_kernel = after_kernel AND state = 'confirmed'"
    )
    assert rows(nights, blamed) == [(0,)]
    certain = "SELECT DISTINCT cause FROM change_point WHERE state = 'confirmed' ORDER BY cause"
    assert rows(nights, certain) == [("host",), ("kernel",)]


PLACES = (
    "SELECT state, cause, before_bundle, after_bundle FROM change_point WHERE direction = 'slower'"
)


def test_a_shift_that_later_results_keep_is_measured_again(nights: Nights) -> None:
    """The pairs saw nothing that night; the nights go on as slow, and no place is barred."""
    nights.bundle = SECOND.sha
    nights.pass_by(1, 1.08)
    nights.confirm(lambda sha: 1.0)
    assert rows(nights, PLACES) == [("dismissed", "", FIRST.sha, SECOND.sha)]
    nights.pass_by(1, 1.08)
    assert rows(nights, PLACES) == [("dismissed", "", FIRST.sha, SECOND.sha)]
    nights.pass_by(1, 1.08)
    assert rows(nights, PLACES) == [("suspected", "", FIRST.sha, SECOND.sha)]
    nights.confirm(lambda sha: 1.08 if sha == SECOND.sha else 1.0)
    assert rows(nights, PLACES) == [("confirmed", "kernel", FIRST.sha, SECOND.sha)]


@one_engine
def test_histories_open_what_pairs_dismissed(nights: Nights) -> None:
    """The screen took the level that it saw for five nights as the device's own."""
    nights.bundle = SECOND.sha
    for _ in range(6):
        nights.pass_by(1, 1.03)
        nights.confirm(lambda sha: 1.0)
    assert {state for state, *_ in rows(nights, PLACES)} == {"dismissed"}
    nights.pass_by(12, 1.03)
    with nights.lab.database.reading() as tx:
        series = tx.execute(select(schema.series.c.id)).scalars().all()
    scan(nights.lab.database, series, nights.lab.now)
    nights.confirm(lambda sha: 1.03 if sha == SECOND.sha else 1.0)
    confirmed = ("confirmed", "kernel", FIRST.sha, SECOND.sha)
    assert confirmed in rows(nights, PLACES)


def test_what_lies_elsewhere_is_measured_there(nights: Nights) -> None:
    """Its pairs are of one bundle, until the history places it: they start anew with both."""
    nights.pass_by(2)
    [(first,)] = rows(nights, "SELECT max(id) FROM job")
    with nights.lab.database.transaction() as tx:
        tx.execute(delete(schema.change_point_event))
        tx.execute(delete(schema.change_point))
    nights.bundle = SECOND.sha
    nights.announce()
    measure_unseen(nights, 8, 1.05)
    with nights.lab.database.transaction() as tx:
        [series] = tx.execute(select(schema.series.c.id)).scalars()
        late = Suspicion(
            series=series,
            method=Method.SCREEN,
            direction="slower",
            before_job=first + 1,
            after_job=first + 2,
            ratio=1.05,
        )
        suspect(tx, [late], nights.lab.now)
    confirm.step(nights.lab.database, nights.lab.now)
    assert rows(nights, PLACES) == [("confirming", "", SECOND.sha, SECOND.sha)]
    scan(nights.lab.database, [series], nights.lab.now)
    assert rows(nights, PLACES) == [("suspected", "", FIRST.sha, SECOND.sha)]
    assert rows(nights, "SELECT verdict FROM confirmation") == [("moved",)]
    nights.confirm(lambda sha: 1.05 if sha == SECOND.sha else 1.0)
    assert rows(nights, PLACES) == [("confirmed", "kernel", FIRST.sha, SECOND.sha)]
    told = "SELECT note FROM change_point_event WHERE note LIKE 'it began with%'"
    assert rows(nights, told) == [
        (f"it began with job {first + 1}, not with {first + 2} as first seen",)
    ]


def measure_unseen(nights: Nights, count: int, factor: float) -> None:
    """So many nights whose results are placed, and not screened."""
    for _ in range(count):
        nights.lab.now += NIGHT
        nights.announce()
        nights.lab.submit(nights.device, 1)
        jobs = nights.lab.pick(nights.device)
        nights.lab.record(*(nights.answer(job, factor) for job in jobs))
    with nights.lab.database.transaction() as tx:
        place(tx, nights.lab.now)


@one_engine
def test_what_its_kin_dismissed_is_measured_itself(nights: Nights) -> None:
    """A driver came on a busy night, and one case of 24 is slower by it."""
    nights.cases = 24
    nights.pass_by(30)
    nights.confirm(lambda sha: 1.0)
    nights.environment = replace(nights.environment, driver_version="23.1")
    nights.pass_by(1, 1.3)
    nights.confirm(lambda sha: 1.0)
    kin = "SELECT count(*) FROM change_point_event WHERE note LIKE 'as % like it on this device%'"
    assert rows(nights, kin) > [(8,)]
    nights.slower = {24: 1.08}
    nights.last(1.0, lambda sha: 1.08)
    question = """
        SELECT kernel_case.name, change_point.cause FROM change_point
        JOIN series ON series.id = series_id JOIN kernel_case ON kernel_case.id = case_id
        WHERE change_point.state = 'confirmed'
    """
    assert rows(nights, question) == [("mul_mat_vec/q4_0/m24_n1_k256", "environment")]


@one_engine
def test_what_pairs_cannot_make_plain_is_not_measured(nights: Nights) -> None:
    """The device is slower and faster for days; no kernel or driver changes."""
    for night in range(40):
        nights.pass_by(1, 1 + 0.03 * sin(night / 4))
        nights.confirm(lambda sha: 1.0)
    assert rows(nights, "SELECT count(*) FROM confirmation") == [(0,)]
    [(found,)] = rows(nights, "SELECT count(*) FROM change_point WHERE state = 'ambiguous'")
    assert found > 0
    note = "SELECT DISTINCT note FROM change_point_event WHERE state = 'ambiguous'"
    assert all("not measured again" in told for (told,) in rows(nights, note))


@one_engine
def test_two_pairs_of_one_bundle_are_four_values(nights: Nights) -> None:
    nights.pass_by(1, 1.2)
    nights.confirm(lambda sha: 1.0)
    assert rows(nights, CHANGES) == [("slower", "dismissed", "")]
    assert rows(nights, "SELECT count(*) FROM job WHERE mode = 'paired'") == [(2,)]
