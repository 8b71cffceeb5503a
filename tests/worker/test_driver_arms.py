"""Pairs of drivers as a supervisor does them: timed in turns, judged, and blamed for a crash."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from planted_drivers import LAVAPIPE, install_driver, plant_driver
from vkbench.device import DRIVER_NAME, ICD_LIBRARY, Environment
from vkbench.drivers.store import Driver, DriverStore
from vkbench.job import Arm, ArmKind, Job, Mode, Outcome, Pair
from vkbench.result import HOT, Result, Side, WrongArm
from vkbench.settings import settings
from vkbench_shaders.bundle import packaged_sha
from vkbench_worker.owner.routes import find_routes
from vkbench_worker.owner.supervisor import Supervisor

Need = Callable[[str, str], None]


@pytest.fixture
def drivers(need: Need, tmp_path: Path) -> dict[str, Driver]:
    """Debian's CPU driver, and others that stand before it."""
    if not LAVAPIPE.exists():
        need("gpu", "lavapipe is not installed (apt install mesa-vulkan-drivers)")
    store = DriverStore(settings().driver_folder())
    planted = {name: plant_driver(name, tmp_path / name) for name in ("slow", "wrong", "crash")}
    return {name: store.add(name, path) for name, path in {"real": LAVAPIPE, **planted}.items()}


@pytest.mark.timeout(300)
def test_a_driver_that_is_updated_meanwhile_is_what_results_name(
    need: Need, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not LAVAPIPE.exists():
        need("gpu", "lavapipe is not installed (apt install mesa-vulkan-drivers)")
    place = tmp_path / "installed"
    monkeypatch.setenv("VK_DRIVER_FILES", str(install_driver("none", place, tmp_path / "none")))
    results: list[Result] = []
    environments: list[Environment] = []
    job = Job(id=1, token=1, case="add/f32/b1_c1_h8_w64", mode=Mode.CORRECTNESS)
    with Supervisor("llvmpipe", settings(), note_environment=environments.append) as supervisor:
        old = supervisor.start().environment
        supervisor.run([job, replace(job, id=2)], results.append)
        pid = supervisor.runner_pid
        supervisor.run([replace(job, id=3)], results.append)
        assert supervisor.runner_pid == pid  # nothing was updated
        install_driver("wrong", place, tmp_path / "wrong")
        supervisor.run([replace(job, id=4)], results.append)
        assert supervisor.ready
        new = supervisor.ready.environment
    assert [result.outcome for result in results] == [Outcome.PASSED] * 3 + [Outcome.WRONG]
    assert [result.environment for result in results] == [old.hash] * 3 + [new.hash]
    assert environments == [new]
    shas = [environment.extra[ICD_LIBRARY] for environment in (old, new)]
    assert shas[0] != shas[1]
    assert shas[1] == hash_file(place / "libvulkan_lvp.so")[: len(shas[1])]


@pytest.mark.timeout(300)
def test_a_driver_that_was_added_and_is_updated_meanwhile_names_no_result(
    need: Need, tmp_path: Path
) -> None:
    """Its files stay where the system updates them; a process that has the old ones goes on."""
    if not LAVAPIPE.exists():
        need("gpu", "lavapipe is not installed (apt install mesa-vulkan-drivers)")
    place = tmp_path / "installed"
    manifest = install_driver("none", place, tmp_path / "none")
    mine = DriverStore(settings().driver_folder()).add("mine", manifest)
    [route] = find_routes(mine, ["llvmpipe"], settings())
    results: list[Result] = []
    job = Job(id=1, token=1, case="add/f32/b1_c1_h8_w64", mode=Mode.CORRECTNESS)
    with Supervisor(route.facts.key, settings(), route=route) as supervisor:
        supervisor.start()
        supervisor.run([job], results.append)
        install_driver("wrong", place, tmp_path / "wrong")
        supervisor.run([replace(job, id=2)], results.append)
        assert supervisor.runner_pid
        os.kill(supervisor.runner_pid, signal.SIGKILL)
        supervisor.run([replace(job, id=3), replace(job, id=4)], results.append)
    outcomes = [result.outcome for result in results]
    assert outcomes[:2] == [Outcome.PASSED, Outcome.PASSED]
    assert outcomes[2] in (Outcome.CRASHED, Outcome.DEVICE_LOST)  # as soon as it is seen to be gone
    assert outcomes[3] is Outcome.DEVICE_LOST
    assert "libvulkan_lvp.so of driver mine was changed" in results[-1].reason
    assert "add it again" in results[-1].reason


def hash_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def pair_job(number: int, old: Driver, new: Driver, metric: str = HOT) -> Job:
    return Job(
        id=number,
        token=1,
        case="add/f32/b1_c1_h300_w400",  # more work than a launch alone costs
        mode=Mode.PAIRED,
        bundle=new.sha,
        arm_kind=ArmKind.DRIVER,
        pair=Pair(old=Arm(name=old.sha, kind=ArmKind.DRIVER), metric=metric),
        measure_seconds=0.02,
    )


def through(number: int, driver: Driver, mode: Mode) -> Job:
    return Job(id=number, token=1, case="add/f32/b1_c1_h8_w64", mode=mode, driver=driver.sha)


@pytest.mark.timeout(300)
def test_single_jobs_run_through_a_driver_beside_others(drivers: dict[str, Driver]) -> None:
    real, wrong, crash = (drivers[name] for name in ("real", "wrong", "crash"))
    own = replace(through(1, real, Mode.CORRECTNESS), driver="")
    jobs = [
        *(own, through(2, wrong, Mode.CORRECTNESS), replace(own, id=3)),
        *(through(4, crash, Mode.CORRECTNESS), through(5, real, Mode.COMPILE)),
    ]
    results: list[Result] = []
    environments: list[Environment] = []
    with Supervisor("llvmpipe", settings(), note_environment=environments.append) as supervisor:
        ready = supervisor.start()
        supervisor.run(jobs, results.append)
    names = {known.hash: known.extra.get(DRIVER_NAME) for known in environments}
    assert [(result.outcome, names.get(result.environment)) for result in results] == [
        (Outcome.PASSED, None),
        (Outcome.WRONG, "wrong"),
        (Outcome.PASSED, None),
        (Outcome.CRASHED, "crash"),
        (Outcome.PASSED, "real"),
    ]
    assert [timing.metric for timing in results[-1].timings] == ["compile", "submit"]
    assert {result.device for result in results} == {ready.facts.key}


@pytest.mark.timeout(300)
def test_pairs_are_timed_in_turns_judged_and_blamed(drivers: dict[str, Driver]) -> None:
    real, slow, wrong, crash = (drivers[name] for name in ("real", "slow", "wrong", "crash"))
    gone = replace(real, build=replace(real.build, files=real.build.files[:1]))
    jobs = [
        pair_job(1, real, slow),
        pair_job(2, wrong, real),
        pair_job(3, real, crash),
        pair_job(4, real, slow, "cold"),
        pair_job(5, real, gone),
    ]
    results: list[Result] = []
    environments: list[Environment] = []
    with Supervisor("llvmpipe", settings(), note_environment=environments.append) as supervisor:
        own = supervisor.start()
        supervisor.run(jobs, results.append)
    timed, judged, crashed, skipped, unknown = results
    names = {known.hash: known.extra[DRIVER_NAME] for known in environments}
    assert timed.outcome is Outcome.PASSED, timed.reason
    seconds = {timing.side: timing.seconds for timing in timed.timings}
    assert seconds[Side.NEW] > 1.5 * seconds[Side.OLD]
    assert (names[timed.environment], timed.device) == ("slow", own.facts.key)
    assert timed.bundle == packaged_sha()  # the kernel is the same on both sides
    assert judged.outcome is Outcome.WRONG
    assert judged.verdict
    assert judged.verdict.wrong_arm is WrongArm.OLD
    assert (crashed.outcome, crashed.reason) == (Outcome.CRASHED, "new: SIGSEGV")
    assert (skipped.outcome, skipped.reason) == (
        *(Outcome.SKIPPED, "two drivers are timed hot alone"),
    )
    assert unknown.outcome is Outcome.SKIPPED
    assert unknown.reason == f"new: there is no driver {gone.sha[:12]} on this host"
    assert {result.bundle for result in results} == {packaged_sha()}
