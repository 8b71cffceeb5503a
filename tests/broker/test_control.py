"""What people steer: cancel, pause, priority, fair shares; and more than one scheduler."""

import os
import signal
import time
from dataclasses import replace

from sqlalchemy import delete

import planted_runner
from cluster import Lab, kill, until
from vkbench.job import JobState
from vkbench_db import schema
from vkbench_db.ask import queries
from vkbench_db.database import Database
from vkbench_db.transfer.exchange import export_run, import_lines
from vkbench_db.upkeep.attendance import Attendance, attendance
from vkbench_db.work import store
from vkbench_db.work.devices import store_device
from vkbench_shaders.bundle import packaged_sha

LONG = "sleep/f32/n100"


def cancel(lab: Lab, run: int) -> None:
    with lab.database.transaction() as tx:
        store.cancel(tx, run, time.time())


def started(lab: Lab, run: int) -> int:
    ids = {row.id for row in lab.jobs(run)}
    return len({event.job for event in lab.events("start") if event.job in ids})


def is_quiet(lab: Lab) -> bool:
    """Whether no job starts for a second, in which several could end."""
    before = len(lab.events("start"))
    time.sleep(1)
    return len(lab.events("start")) == before


def test_cancel_ends_the_running_job_and_skips_the_window(lab: Lab) -> None:
    lab.start_scheduler()
    lab.start_worker()
    run = lab.submit(["sleep/f32/n50"] * 10 + ["sleep/f32/n15000"] * 20)
    lab.await_start(11)
    other = lab.submit([LONG] * 3)
    cancel(lab, run)
    assert lab.ended(run) == 30
    lab.await_end(other, seconds=8)
    lab.check(run, other)
    assert lab.counts(other) == {JobState.PASSED: 3}
    assert started(lab, run) == 11


def test_what_an_import_has_left_is_never_sent(lab: Lab) -> None:
    """Though its device is served here."""
    lab.start_scheduler()
    lab.start_worker()
    with Database.open(f"sqlite:///{lab.folder / 'there.db'}", create=True) as database:
        with database.transaction() as tx:
            store_device(tx, planted_runner.facts("a", lab.settings))
        there = replace(lab, database_url=f"sqlite:///{lab.folder / 'there.db'}", processes=[])
        run = there.submit([LONG] * 3)
        with database.reading() as tx, lab.database.transaction() as own:
            import_lines(own, list(export_run(tx, run)), time.time())
        there.close()
    mine = lab.submit([LONG] * 3)
    lab.await_end(mine)
    lab.check(mine)
    assert lab.counts(mine - 1) == {JobState.ELSEWHERE: 3}
    assert started(lab, mine - 1) == 0


def test_cancel_outlives_the_scheduler(lab: Lab) -> None:
    scheduler = lab.start_scheduler()
    lab.start_worker()
    run = lab.submit([LONG] * 100)
    lab.await_start(2)
    kill(scheduler)
    cancel(lab, run)
    lab.start_scheduler()
    until(lambda: not lab.redis.client.llen(f"vk:queue:{lab.key('a')}"), "messages stay", 15)
    until(lambda: is_quiet(lab), "jobs go on", 15)
    assert len(lab.events("start")) < 80
    assert lab.counts(run)[JobState.CANCELLED] >= 20
    lab.check(run)


def test_a_paused_device_gets_nothing_new(lab: Lab) -> None:
    lab.start_scheduler()
    lab.start_worker()
    run = lab.submit([LONG] * 90)
    lab.await_start(2)
    with lab.database.transaction() as tx:
        store.pause(tx, lab.key("a"), store.Pause())
    until(lambda: JobState.DISPATCHED not in lab.counts(run), "the window stays full", 20)
    until(lambda: JobState.RUNNING not in lab.counts(run), "a job stays", 5)
    ran = lab.ended(run)
    assert ran < 80  # two chunks that were sent as jobs of half the length
    time.sleep(1)
    assert lab.ended(run) == ran
    with lab.database.transaction() as tx:
        store.resume(tx, lab.key("a"), time.time())
    lab.await_end(run)
    lab.check(run)


def test_a_recalled_device_hands_back_all_that_it_holds(lab: Lab) -> None:
    lab.start_scheduler()
    lab.start_worker()
    run = lab.submit([LONG, "sleep/f32/n20000", *[LONG] * 100])
    lab.await_start(2)
    with lab.database.transaction() as tx:
        store.pause(tx, lab.key("a"), store.Pause(recall=True))
    until(lambda: lab.counts(run).get(JobState.QUEUED) == 101, "the window stays full", 6)
    with lab.database.transaction() as tx:
        store.cancel(tx, run, time.time())
        store.resume(tx, lab.key("a"), time.time())
    other = lab.submit([LONG] * 3)
    lab.await_end(other)
    lab.check(run, other)
    assert {row.tries for row in lab.jobs(run)} == {0}


def test_a_device_that_is_gone_is_paused_before_it_fails_its_queue(lab: Lab) -> None:
    lab.start_scheduler()
    lab.start_worker()
    run = lab.submit(
        ["sleep/f32/n1500", *[f"sleep/f32/n{size}" for size in (20, 21)], "flood/f32/n1"]
    )
    lab.await_start()
    (lab.settings.data / "unplugged").touch()
    os.kill(lab.events("start")[0].pid, signal.SIGKILL)

    def reason() -> str:
        with lab.database.reading() as tx:
            return queries.devices(tx)[0].paused_reason

    until(lambda: "in a row ended" in reason(), "the device is not paused", 15)
    (lab.settings.data / "unplugged").unlink()
    with lab.database.transaction() as tx:
        store.resume(tx, lab.key("a"), time.time())
    lab.await_end(run)
    assert lab.counts(run) == {JobState.PASSED: 4}
    lab.check(run)


def test_runs_take_turns_and_the_urgent_goes_first(lab: Lab) -> None:
    scheduler = lab.start_scheduler()
    lab.start_worker()
    kill(scheduler)
    first, second = lab.submit([LONG] * 20), lab.submit([LONG] * 20)
    urgent = lab.submit([LONG] * 5, priority=9)
    lab.start_scheduler()
    lab.await_end(first, second, urgent)
    lab.check(first, second, urgent)
    run_of = {row.id: run for run in (first, second, urgent) for row in lab.jobs(run)}
    order = [run_of[event.job] for event in lab.events("start")]
    assert order[:5] == [urgent] * 5
    assert abs(order[5:25].count(first) - 10) <= 1


def test_two_schedulers_share_the_work(lab: Lab) -> None:
    first, second = lab.start_scheduler(), lab.start_scheduler()
    lab.start_worker("a")
    lab.start_worker("b")
    runs = [lab.submit(["sleep/f32/n20"] * 150, device) for device in "ab"]
    lab.await_start(20)
    kill(first)
    lab.await_end(*runs)
    lab.check(*runs)
    assert second.poll() is None
    assert [lab.counts(run) for run in runs] == [{JobState.PASSED: 150}] * 2


def test_an_offline_device_keeps_its_jobs(lab: Lab) -> None:
    lab.start_scheduler()
    worker = lab.start_worker("a")
    lab.start_worker("b")
    kill(worker)
    until(lambda: not lab.redis.client.exists(f"vk:lease:{lab.key('a')}"), "the lease stays")
    time.sleep(1.1)  # the scheduler's next look
    waiting, other = lab.submit([LONG] * 3, "a"), lab.submit([LONG] * 3, "b")
    lab.await_end(other)
    assert lab.counts(waiting) == {JobState.QUEUED: 3}
    lab.start_worker("a")
    lab.await_end(waiting)
    lab.check(waiting, other)
    assert {row.dispatches for row in lab.jobs(waiting)} == {1}


def test_a_scheduler_is_seen_while_it_runs(lab: Lab) -> None:
    def seen() -> float | None:
        with lab.database.reading() as tx:
            return attendance(tx).scheduler_seen

    assert seen() is None
    scheduler = lab.start_scheduler()
    until(lambda: seen() is not None, "no heartbeat", 20)
    assert attendance_is_fresh(seen())
    scheduler.terminate()
    assert scheduler.wait(20) == 0
    assert seen() is None
    lab.redis.kill()
    waiting = lab.start_scheduler()
    until(lambda: seen() is not None, "no heartbeat without Redis", 20)
    kill(waiting)
    assert attendance_is_fresh(seen())


def test_a_scheduler_keeps_the_kernels_of_its_version(lab: Lab) -> None:
    def is_kept() -> bool:
        with lab.database.reading() as tx:
            return store.has_bundle(tx, packaged_sha())

    with lab.database.transaction() as tx:
        tx.execute(delete(schema.bundle_blob))
    assert not is_kept()
    lab.start_scheduler()
    until(is_kept, "the packaged kernels are not kept", 20)


def test_a_scheduler_stops_once_a_newer_vkbench_has_upgraded_its_database(lab: Lab) -> None:
    scheduler = lab.start_scheduler()

    def seen() -> float | None:
        with lab.database.reading() as tx:
            return attendance(tx).scheduler_seen

    until(lambda: seen() is not None, "no heartbeat", 20)
    with lab.database.transaction() as tx:
        tx.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    assert scheduler.wait(20) == 8
    said = (lab.folder / "scheduler.log").read_text()
    assert "has schema 9999, newer than this vkbench knows" in said
    assert "Traceback" not in said
    assert seen() is not None, "it wrote to the database after that"


def attendance_is_fresh(seen: float | None) -> bool:
    return Attendance(scheduler_seen=seen, stations=()).has_scheduler(time.time())
