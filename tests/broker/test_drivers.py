"""The whole way on two real drivers: kill -9 loses nothing, and drivers under test travel."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import pytest
from sqlalchemy import select

from cluster import Lab, kill, until
from planted_driver_tree import plant_driver_tree
from planted_drivers import install_driver, plant_driver
from ssh_keys import allow, new_ssh_key
from vkbench.device import DeviceFacts
from vkbench.job import JobState, Mode
from vkbench.messages.wire import from_builtins
from vkbench_db import schema
from vkbench_db.ask.devices.drivers import drivers_of_devices
from vkbench_detection.confirm.levels import LASTING
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.submit import plan_through, submit

DRIVERS = {
    "gpu": Path("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json"),
    "swiftshader": Path("/usr/lib/chromium/vk_swiftshader_icd.json"),
}
NAMES = ("llvmpipe", "SwiftShader")
SUM = "add/f32/b1_c1_h8_w64"
LARGE = "add/f32/b1_c1_h300_w400"  # more work than a launch alone costs
HOST_USER: Mapping[str, str] = {}


@pytest.fixture
def drivers(
    need: Callable[[str, str], NoReturn], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two CPU drivers, which are two devices of one host; the first one can be updated."""
    for name, path in DRIVERS.items():
        if not path.exists():
            need(name, f"there is no {path}")
    installed = install_driver("none", tmp_path / "installed", tmp_path / "none")
    manifests = (installed, DRIVERS["swiftshader"])
    monkeypatch.setenv("PLANTED_PAIR_SECONDS", "0.05")
    monkeypatch.setenv("VK_DRIVER_FILES", os.pathsep.join(map(str, manifests)))


def devices(lab: Lab) -> list[DeviceFacts]:
    with lab.database.reading() as tx:
        rows = tx.execute(select(schema.device.c.facts)).scalars()
        return [from_builtins(facts, DeviceFacts) for facts in rows]


def start_worker(lab: Lab, name: str) -> int:
    """The worker's process id."""
    return lab.start("-m", "vkbench_worker.service.main", name, log=f"worker-{name}").pid


def runner_of(worker: int) -> int:
    children = Path(f"/proc/{worker}/task").glob("*/children")
    return int("".join(path.read_text() for path in children).split()[0])


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("drivers")
def test_two_devices_three_kills_and_drivers_under_test(
    make_lab: Callable[..., Lab], tmp_path: Path
) -> None:
    key, store = new_ssh_key(tmp_path / "ann"), str(tmp_path / "store")
    allowed = allow(tmp_path / "allowed", {"ann@lab": key})
    lab = make_lab(runner="vkbench_worker.runner.main", store=store, builds=str(allowed))
    scheduler = lab.start_scheduler()
    workers = {name: start_worker(lab, name) for name in NAMES}
    until(lambda: len(devices(lab)) == 2, "two devices do not announce themselves", 60)
    selection = Selection(
        kernels=("copy", "dequantize", "get_rows"),
        formats=("q4_0", "f32"),
        mode=Mode.CORRECTNESS,
    )
    made = submit(lab.database, selection, devices(lab))
    run = made.run.id
    until(lambda: lab.ended(run) > 3, "nothing ends", 60)
    os.kill(runner_of(workers["llvmpipe"]), signal.SIGKILL)
    until(lambda: lab.ended(run) > 8, "nothing ends after the runner", 60)
    os.kill(workers["SwiftShader"], signal.SIGKILL)
    start_worker(lab, "SwiftShader")
    until(lambda: lab.ended(run) > 12, "nothing ends after the worker", 60)
    kill(scheduler)
    lab.start_scheduler()
    lab.await_end(run, seconds=90)
    lab.check(run)
    bad = [
        (job.case, job.reason)
        for job in lab.jobs(run)
        if job.state in (JobState.WRONG, JobState.FAILED)
    ]
    assert not bad
    assert {job.device_id for job in lab.jobs(run) if job.state == JobState.PASSED} == {1, 2}
    check_one_at_a_time(lab, run)
    check_drivers_travel(lab, key)
    allowed.write_text("# nobody any more\n")
    check_others_are_skipped(lab, key, allowed)
    check_an_update_is_noticed(lab, tmp_path)


def vkbench(lab: Lab, *words: str, user: Mapping[str, str] = HOST_USER, code: int = 0) -> Any:
    """The rows of a command's JSON, or what it prints; it ends with this code."""
    command = [str(Path(sys.executable).parent / "vkbench"), *words]
    env = {**lab.environ(), **user}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)["rows"] if "--json" in words else done.stdout


def of_user(lab: Lab, key: Path) -> dict[str, str]:
    """The environment variables of a user who submits from another machine."""
    return {"VKBENCH_DATA": str(lab.folder / "user"), "VKBENCH_BUILD_KEY": str(key)}


def check_drivers_travel(lab: Lab, key: Path) -> None:
    """Drivers of a host are known by what it announces, and a copy of a user's goes there."""
    user = of_user(lab, key)
    vkbench(lab, "driver", "add", "host", "--icd", str(DRIVERS["gpu"]))
    plant_driver("wrong", lab.folder / "wrong")
    vkbench(lab, "driver", "add", "mine", "--folder", str(lab.folder / "wrong"), user=user)

    def announced() -> list[list[str]]:
        with lab.database.reading() as tx:
            known = drivers_of_devices(tx, [facts.key for facts in devices(lab)])
        return [[each.name for each in drivers or ()] for drivers in known.values()]

    until(lambda: announced() == [["host"]] * 2, "no driver is announced", 30)
    chosen = ("--case", SUM, "--seconds", "0.02", "--json")
    once = (*chosen, "--mode", "correctness", "--wait")
    rows = vkbench(lab, "submit", "--driver", "mine", "-d", "llvmpipe", *once, code=3, user=user)
    assert [row["verdict"] for row in rows] == ["wrong"]
    rows = vkbench(lab, "submit", "--driver", "*", *once, "--all", user=user)
    assert [row["verdict"] for row in rows] == ["passed"] * 2

    def name_environments() -> set[str | None]:
        with lab.database.reading() as tx:
            facts = tx.execute(select(schema.environment.c.facts)).scalars()
            return {known["extra"].get("driver_name") for known in facts}

    named = {None, "host", "mine"}  # by workers' announcements, a moment after the results
    until(lambda: name_environments() == named, "drivers are not announced", 30)
    pair = ("--device", "llvmpipe", "--submit")
    arms = ("--old", "host", "--new", "mine")
    [row] = vkbench(lab, "driver", "try", *arms, *pair, *chosen, code=3, user=user)
    assert (row["case"], row["verdict"]) == (SUM, "wrong")
    number = vkbench(
        lab, "bisect", "--drivers", "host,mine", *pair, *chosen[:-1], user=user
    ).strip()
    shown = ("bisect", "show", number, "--json")
    until(lambda: vkbench(lab, *shown)[-1]["verdict"] == "wrong", "no bisection ends", 60)
    repository = plant_driver_tree(lab.folder, ["none", "wrong", "wrong"])
    declared = ("--driver-file", str(lab.folder / "wrapped.toml"), "--repository", str(repository))
    rows = vkbench(
        lab, "bisect", *declared, "--revisions", "r0..r2", *pair, *chosen, code=0, user=user
    )
    assert [(row["verdict"], row["is_first_bad"]) for row in rows[1:]] == [
        ("wrong", True),
        ("wrong", False),
    ]


def check_others_are_skipped(lab: Lab, key: Path, allowed: Path) -> None:
    """What a host has not, and may not fetch or cannot get, is the reason of a skipped job."""
    user = of_user(lab, key)
    words = ("--case", SUM, "--mode", "correctness", "-d", "llvmpipe", "--wait", "--json", "--all")
    [row] = vkbench(lab, "submit", "--driver", "mine", *words, code=7, user=user)
    assert row["verdict"] == "skipped"
    assert row["reason"].startswith("this host has no driver ")
    assert row["reason"].endswith(f"no key in {allowed} (VKBENCH_BUILDS) has signed it")
    allow(allowed, {"ann@lab": key})
    [facts] = [facts for facts in devices(lab) if "llvmpipe" in facts.name]
    selection = Selection(cases=(SUM,), mode=Mode.CORRECTNESS)
    planner = plan_through({"ab" * 32: [facts.key]})
    run = submit(lab.database, selection, devices(lab), planner=planner).run.id
    lab.await_end(run)
    [job] = lab.jobs(run)
    assert job.state == JobState.SKIPPED
    assert job.reason.startswith("this host has no driver abababababab, and ")
    assert "has no such build" in job.reason


def check_an_update_is_noticed(lab: Lab, folder: Path) -> None:
    """The host's driver becomes slow, and pairs with the one before it say that it is to blame.

    The worker runs meanwhile.
    """
    time_case(lab)
    install_driver("slow", folder / "installed", folder / "slow")
    time_case(lab)

    def is_found() -> bool:
        with lab.database.reading() as tx:
            return tx.execute(select(schema.regression.c.id)).first() is not None

    until(is_found, "nobody notices that the driver is slow", 100)
    [found] = vkbench(lab, "regressions", "ls", "--json")
    assert (found["direction"], found["cause"]) == ("slower", "driver")
    assert found["ratio"] > 1.5
    assert " since driver llvmpipe " in found["title"]
    [device] = [row for row in vkbench(lab, "devices", "--json") if "llvmpipe" in row["name"]]
    old, _, new = device["driver_copies"].split(", ")  # beside SwiftShader's
    told = vkbench(lab, "regressions", "show", str(found["id"]))
    assert f"vkbench compare driver:{old} driver:{new}" in told
    assert f"vkbench bisect --case {LARGE} --drivers {old},{new} --device " in told
    words = ("--case", LARGE, "--drivers", f"{old},{new}", "--device", device["key"], "--submit")
    assert vkbench(lab, "bisect", *words).strip() == "3"  # drivers that the fleet knows


def time_case(lab: Lab) -> None:
    """As many results of a case as tell its level."""
    [facts] = [facts for facts in devices(lab) if "llvmpipe" in facts.name]
    selection = Selection(
        cases=(LARGE,), mode=Mode.PERFORMANCE, devices=(facts.key,), measure_seconds=0.05
    )
    for _ in range(LASTING + 1):
        run = submit(lab.database, selection, devices(lab)).run.id
        lab.await_end(run)


def check_one_at_a_time(lab: Lab, run: int) -> None:
    job, attempt = schema.job.c, schema.attempt.c
    with lab.database.reading() as tx:
        rows = tx.execute(
            select(job.device_id, attempt.started_at, attempt.seconds)
            .join(schema.job, job.id == attempt.job_id)
            .where(job.run_id == run, attempt.outcome == JobState.PASSED)
            .order_by(job.device_id, attempt.started_at)
        ).all()
    for before, after in pairwise(rows):
        if before.device_id == after.device_id:
            assert before.started_at + before.seconds <= after.started_at + 0.002
