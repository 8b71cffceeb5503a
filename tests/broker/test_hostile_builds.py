"""Builds that do harm, or do not come: each costs its own cases, and no job is lost."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from socket import create_server

import pytest

import hostile_program
from cluster import Lab, until
from planted_builds import add_unloadable
from ssh_keys import allow, new_ssh_key
from vkbench.job import ArmKind, JobState, Mode, Outcome, PlannedJob
from vkbench.programs.build import Build
from vkbench.programs.places.folder import FolderPlace
from vkbench.programs.program import GGML_VULKAN, Program
from vkbench.programs.signed import sign_for
from vkbench.programs.store import BuildStore
from vkbench.programs.transfer import send
from vkbench_db.work import store

SCRIPT = Path(hostile_program.__file__)
REFUSED = ("Permission denied", "Operation not permitted")
SCRIPT_NAME = "hostile_program.py"


class Owner:
    """Who hands in builds of the hostile program."""

    def __init__(self, folder: Path, port: int, place: FolderPlace) -> None:
        self._key = new_ssh_key(folder / "ann")
        self.allowed = allow(folder / "allowed", {"ann@lab": self._key})
        self.builds = BuildStore(folder / "user")
        self._place = place
        self._program = Program(
            name="hostile",
            description="does harm",
            adapter="lines",
            needs=(SCRIPT_NAME,),
            run=("python3", SCRIPT_NAME, str(folder), str(port)),
        )

    def add(self) -> Build:
        """A build, which is sent nowhere yet."""
        return self.builds.add("hostile", {SCRIPT_NAME: lambda: SCRIPT.open("rb")})

    def send(self, build: Build) -> None:
        """Sign it, and put it where workers get it."""
        program = self._program if build.program == "hostile" else GGML_VULKAN
        send(build, sign_for(self._place, program, build, self._key), self.builds, self._place)


@pytest.fixture
def port() -> Iterator[int]:
    """A port of this machine that listens."""
    with closing(create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


@pytest.fixture
def owner(tmp_path: Path, port: int) -> Owner:
    (tmp_path / "secret").write_text("of the worker's host")
    return Owner(tmp_path, port, FolderPlace(tmp_path / "store"))


@pytest.fixture
def lab(make_lab: Callable[..., Lab], owner: Owner, tmp_path: Path) -> Lab:
    lab = make_lab(store=str(tmp_path / "store"), builds=str(owner.allowed))
    lab.start_scheduler()
    lab.start_worker()
    return lab


def submit(lab: Lab, build: Build, names: Sequence[str], limit: float = 20) -> int:
    """A run of cases that a build does; its number."""
    jobs = [
        PlannedJob(
            device=lab.key("a"),
            case=name,
            mode=Mode.CORRECTNESS,
            variant=build.program,
            bundle=build.sha,
            arm_kind=ArmKind.BUILD,
            limit_seconds=limit,
        )
        for name in names
    ]
    with lab.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.CORRECTNESS, selection={}, now=time.time())
        store.add_jobs(tx, run.id, jobs)
    return run.id


def running_programs() -> list[int]:
    """The processes of hostile programs that run."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if SCRIPT_NAME.encode() in words:
            found.append(int(place.parent.name))
    return found


@pytest.mark.timeout(300)
def test_what_a_build_does_costs_its_own_cases(lab: Lab, owner: Owner, tmp_path: Path) -> None:
    build = owner.add()
    owner.send(build)
    tried = ("write", "read", "connect", "leave", "kill", "fork")
    run = submit(lab, build, [f"hostile:{name}" for name in tried])
    without_end = [f"hostile:{name}" for name in ("hang", "print", "complain", "chatter")]
    endless = submit(lab, build, without_end, limit=1.0)
    other = lab.submit(["sleep/f32/n10"] * 2)
    lab.await_end(run, endless, other, seconds=90)
    lab.check(run, endless, other)
    said = {row.case.partition(":")[2]: row.reason for row in lab.jobs(run)}
    assert set(said.pop("write").split(", ")) <= {*REFUSED}
    assert said.pop("fork").endswith("children")
    assert set(said.values()) <= {*REFUSED}, said
    assert not (tmp_path / "planted").exists()
    assert lab.counts(endless) == {JobState.FAILED: 4}
    causes = {row.case.partition(":")[2]: row.cause for row in lab.jobs(endless)}
    assert causes["hang"] == causes["complain"] == Outcome.TIMED_OUT
    # the limit may pass before so much of a line was read as none may have
    assert {causes["print"], causes["chatter"]} <= {Outcome.TIMED_OUT, Outcome.ERROR}
    assert lab.counts(other) == {JobState.PASSED: 2}
    until(lambda: not running_programs(), "what it started goes on", 10)


@pytest.mark.timeout(300)
def test_a_build_that_does_not_come_makes_its_jobs_wait(
    lab: Lab, owner: Owner, tmp_path: Path
) -> None:
    build = owner.add()
    run, other = submit(lab, build, ["hostile:nothing"]), lab.submit(["sleep/f32/n10"])
    lab.await_end(other)
    assert lab.counts(other) == {JobState.PASSED: 1}
    until(lambda: "is awaited: " in lab.jobs(run)[0].reason, "nothing says why it waits", 20)
    reason = lab.jobs(run)[0].reason
    assert reason.startswith(f"build {build.sha[:12]} is awaited: {tmp_path / 'store'} has no such")
    owner.send(build)
    lab.await_end(run, seconds=30)
    lab.check(run)
    [job] = lab.jobs(run)
    assert (job.state, job.reason, job.tries) == (JobState.SKIPPED, "nothing", 0)
    assert os.listdir(lab.settings.build_folder() / "builds") == [f"{build.sha}.json"]


@pytest.mark.timeout(300)
def test_a_host_that_cannot_load_a_build_skips_its_jobs(
    lab: Lab, owner: Owner, tmp_path: Path
) -> None:
    reasons = []
    for lacks in ("glibc", "libvulkan"):
        build = add_unloadable(owner.builds, lacks, tmp_path / lacks)
        owner.send(build)
        run = submit(lab, build, ["add/f32/b1_c1_h8_w64"])
        lab.await_end(run)
        assert lab.counts(run) == {JobState.SKIPPED: 1}
        reasons += [row.reason for row in lab.jobs(run)]
    assert "version `GLIBC_9." in reasons[0]
    assert "libvulkan.so.99: cannot open shared object file" in reasons[1]
    assert not [reason for reason in reasons if "\n" in reason]
