"""`vkbench submit` says in one line why its jobs wait, and nothing where a worker does them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import update

from commands import Captured, run_command
from planted_runs import Past
from vkbench.device import DeviceFacts
from vkbench_cli import main as cli
from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_db.upkeep.attendance import Attendance, Station, beat
from vkbench_db.work import store
from vkbench_tables.absence import absence

SUBMIT = ("submit", "-k", "copy", "-s", "n=64")
NOW = 1_790_000_000.0


def submitted(capsys: Captured, *words: str, code: int = 0) -> list[str]:
    """What a submission says on stderr, a line each."""
    return run_command(capsys, *SUBMIT, *words, code=code)[1].splitlines()


@pytest.fixture
def silence(filled: Database) -> Callable[..., None]:
    """Makes it so many seconds since a scheduler and since a worker were heard of."""

    def silent(*, scheduler: float | None = None, worker: float = 0.0) -> None:
        with filled.transaction() as tx:
            tx.execute(update(schema.device).values(last_seen=time.time() - worker))
            if scheduler is not None:
                beat(tx, "here:1", time.time() - scheduler)

    return silent


def test_nothing_is_said_where_all_are_there(
    silence: Callable[..., None], capsys: Captured
) -> None:
    silence(scheduler=3.0)
    [line] = submitted(capsys)
    assert line.endswith("jobs submitted")


def test_a_scheduler_that_never_ran_is_missed(
    silence: Callable[..., None], capsys: Captured
) -> None:
    silence()
    _, line = submitted(capsys)
    assert line == "run 3 waits: no scheduler is running; start `vkbench scheduler`"


def test_a_scheduler_that_is_gone_is_missed_and_workers_are_not_known(
    silence: Callable[..., None], capsys: Captured
) -> None:
    silence(scheduler=2 * 3600.0, worker=2 * 3600.0)
    _, line = submitted(capsys)
    assert line == (
        "run 3 waits: no scheduler was seen for 2 hours; start `vkbench scheduler`, "
        "and `vkbench worker` on here unless it runs"
    )


def test_a_worker_that_is_gone_is_missed(silence: Callable[..., None], capsys: Captured) -> None:
    silence(scheduler=3.0, worker=190.0)
    _, line = submitted(capsys)
    assert line == (
        "run 3 waits: no worker of Planted 9000 was seen for 3 minutes; "
        "start `vkbench worker` on here"
    )


def test_who_waits_is_told_first(silence: Callable[..., None], capsys: Captured) -> None:
    silence(scheduler=3.0, worker=190.0)
    first, *_ = submitted(capsys, "--wait", "--timeout", "0.1", code=5)
    assert "no worker of Planted 9000" in first


def test_a_paused_device_is_told(
    silence: Callable[..., None], capsys: Captured, past: Past
) -> None:
    silence(scheduler=3.0)
    with past.database.transaction() as tx:
        store.pause(tx, past.device.key, store.Pause())
    _, line = submitted(capsys)
    assert line == f"run 3 waits: Planted 9000 is paused: `vkbench resume {past.device.key}`"


def test_a_finished_run_waits_for_no_worker(silence: Callable[..., None], capsys: Captured) -> None:
    silence()
    submitted(capsys, "--key", "k")
    assert cli.main(["cancel", "last"]) == 0
    assert len(submitted(capsys, "--key", "k")) == 1


def test_several_workers_are_one_line() -> None:
    station = Station(key="a", name="A", host="gpu1", paused=False, last_seen=NOW)
    gone = replace(station, last_seen=NOW - 61)
    never = replace(station, host="gpu2", last_seen=None)
    services = Attendance(
        scheduler_seen=NOW, stations=[station, gone, replace(gone, key="b"), never]
    )
    assert absence(services, NOW) == (
        "no worker of 3 of 4 devices was seen lately; start `vkbench worker` on gpu1, gpu2"
    )
    alone = replace(services, stations=[never])
    assert absence(alone, NOW) == "no worker of A was ever seen; start `vkbench worker` on gpu2"


def test_a_fleet_without_devices_is_told_what_to_start(
    database: Database, capsys: Captured
) -> None:
    code = cli.main(list(SUBMIT))
    printed = capsys.readouterr()
    assert (code, printed.out) == (7, "")
    assert "`vkbench worker`" in printed.err
    assert "`vkbench scheduler`" in printed.err


def test_a_schedule_fired_by_hand_says_the_same(
    silence: Callable[..., None], capsys: Captured
) -> None:
    silence()
    assert cli.main(["schedule", "add", "nightly", "--cron", "0 2 * * *", *SUBMIT[1:]]) == 0
    capsys.readouterr()
    assert "no scheduler is running" in run_command(capsys, "schedule", "fire", "nightly")[1]


def test_a_device_of_another_host_is_named_by_it(
    silence: Callable[..., None], capsys: Captured, past: Past
) -> None:
    silence(scheduler=3.0)
    far: DeviceFacts = replace(past.device, key="ab" * 6, host="gpu7", name="Far", uuid="1" * 32)
    past.add_device(far)
    silence(scheduler=3.0, worker=3 * 86400.0)
    _, line = submitted(capsys, "-d", "Far")
    assert line.endswith("no worker of Far was seen for 3 days; start `vkbench worker` on gpu7")
