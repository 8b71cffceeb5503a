"""`vkbench status`: the services and the queues, and an exit code that scripts can trust."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from cluster import RedisServer
from commands import Captured, run_command
from planted_runs import Past
from vkbench.settings import settings
from vkbench_cli import main as cli
from vkbench_db import schema
from vkbench_db.upkeep.attendance import beat, leave
from vkbench_db.work import store
from vkbench_db.work.refused import Refusal, set_aside

NOWHERE = "redis://127.0.0.1:1/0"


def use(patch: pytest.MonkeyPatch, **variables: str) -> None:
    for name, value in variables.items():
        patch.setenv(f"VKBENCH_{name}", value)
    settings.cache_clear()


@pytest.fixture
def no_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, REDIS=NOWHERE)


@pytest.fixture
def redis(need: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if not shutil.which("redis-server"):
        need("redis", "redis-server is not installed")
    server = RedisServer(tmp_path / "redis")
    server.start()
    use(monkeypatch, REDIS=server.url)
    try:
        yield server.url
    finally:
        server.close()


def seen(past: Past, *, scheduler: float | None = None, worker: float = 0.0) -> None:
    """It is so many seconds since a scheduler and since a worker were heard of."""
    with past.database.transaction() as tx:
        tx.execute(update(schema.device).values(last_seen=time.time() - worker))
        if scheduler is not None:
            beat(tx, "here:1", time.time() - scheduler)


def submit(capsys: Captured) -> None:
    assert cli.main(["submit", "-k", "copy", "-f", "f32", "-s", "n=64"]) == 0
    capsys.readouterr()


def ask_status(capsys: Captured, code: int) -> tuple[dict[str, str], list[dict[str, Any]], str]:
    """States of the services, the devices, and the last line."""
    out, err = run_command(capsys, "status", "--json", code=code)
    answer = json.loads(out)
    states = {service["service"]: service["state"] for service in answer["summary"]["services"]}
    assert answer["summary"]["is_well"] == (code == 0)
    return states, answer["rows"], err.splitlines()[-1]


@pytest.mark.usefixtures("no_redis")
def test_a_fleet_that_nobody_uses_lacks_nothing(past: Past, capsys: Captured) -> None:
    states, [device], line = ask_status(capsys, 0)
    assert states["Redis"] == states["scheduler"] == "not used"
    assert (device["device_name"], device["queued"], device["why"]) == ("Planted 9000", 0, "")
    assert line == "nothing waits"


@pytest.mark.usefixtures("no_redis")
def test_work_that_waits_for_no_scheduler_is_an_error(past: Past, capsys: Captured) -> None:
    submit(capsys)
    states, [device], line = ask_status(capsys, 8)
    assert states == {
        "database": "running", "Redis": "missing", "scheduler": "missing", "workers": "running",
    }  # fmt: skip
    assert device["queued"] == 2
    assert 0 <= device["oldest_seconds"] < 60
    assert device["why"].startswith("no scheduler sends them")
    assert line == "missing: Redis, scheduler"


@pytest.mark.usefixtures("redis")
def test_all_is_well_while_all_run(past: Past, capsys: Captured) -> None:
    seen(past, scheduler=3.0)
    submit(capsys)
    states, [device], line = ask_status(capsys, 0)
    assert set(states.values()) == {"running"}
    assert (device["state"], device["why"], line) == ("online", "", "2 jobs to do")


@pytest.mark.usefixtures("no_redis")
def test_results_that_could_not_be_stored_are_counted(past: Past, capsys: Captured) -> None:
    with past.database.transaction() as tx:
        set_aside(tx, [Refusal(job_id=None, reason="malformed", body=b"?")] * 2, time.time())
    states, _, _ = ask_status(capsys, 0)
    assert states["results"] == "refused"
    assert "2 messages could not be stored" in run_command(capsys, "status", "--wide")[0]


@pytest.mark.usefixtures("redis")
def test_a_scheduler_that_died_is_missed_even_if_nothing_waits(
    past: Past, capsys: Captured
) -> None:
    seen(past, scheduler=7200.0)
    states, _, line = ask_status(capsys, 8)
    assert (states["scheduler"], line) == ("missing", "missing: scheduler")


@pytest.mark.usefixtures("no_redis")
def test_a_scheduler_that_was_stopped_is_missed_once_work_waits(
    past: Past, capsys: Captured
) -> None:
    seen(past, scheduler=3.0)
    with past.database.transaction() as tx:
        leave(tx, "here:1")
    assert ask_status(capsys, 0)[0]["scheduler"] == "not used"
    assert cli.main(["healthy", "scheduler"]) == 8
    submit(capsys)
    assert ask_status(capsys, 8)[0]["scheduler"] == "missing"


@pytest.mark.usefixtures("redis")
def test_a_worker_that_is_gone_is_missed_if_work_waits_for_it(past: Past, capsys: Captured) -> None:
    seen(past, scheduler=3.0, worker=190.0)
    assert ask_status(capsys, 0)[0]["workers"] == "not used"
    submit(capsys)
    seen(past, worker=190.0)
    states, [device], _ = ask_status(capsys, 8)
    assert (states["workers"], device["state"]) == ("missing", "offline")
    assert device["why"] == "no worker was seen for 3 minutes"


@pytest.mark.usefixtures("redis")
def test_a_pause_is_told_and_is_no_error(past: Past, capsys: Captured) -> None:
    seen(past, scheduler=3.0)
    submit(capsys)
    with past.database.transaction() as tx:
        store.pause(tx, past.device.key, store.Pause())
    _, [device], line = ask_status(capsys, 0)
    assert device["why"] == f"paused: `vkbench resume {past.device.key}`"
    assert line == "2 jobs to do (2 on paused devices)"


def test_a_database_that_is_out_of_reach_is_a_row_and_not_a_traceback(
    past: Past, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, REDIS=NOWHERE, DATABASE="postgresql://vk:hunter2@127.0.0.1:1/x")
    states, devices, line = ask_status(capsys, 8)
    assert (states["database"], devices, line) == ("missing", [], "missing: database")
    out, err = run_command(capsys, "status", code=8)
    assert "cannot be used" in out
    assert "hunter2" not in out + err


@pytest.mark.usefixtures("no_redis")
def test_people_see_two_tables(past: Past, capsys: Captured) -> None:
    submit(capsys)
    services, devices = run_command(capsys, "status", code=8)[0].split("\n\n")
    assert services.startswith("service")
    assert "Planted 9000" in devices


@pytest.mark.parametrize("url", ["redis://127.0.0.1:port/0", "http://x", "nonsense"])
def test_a_malformed_url_of_redis_is_told(
    past: Past, capsys: Captured, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    use(monkeypatch, REDIS=url)
    assert ask_status(capsys, 0)[0]["Redis"] == "not used"
