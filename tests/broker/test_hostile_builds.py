"""Builds that do harm, or do not come: each costs its own cases, and no job is lost."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from socket import create_server

import pytest

import hostile_program
from cluster import Lab, until
from ssh_keys import allow, new_ssh_key
from vkbench.job import ArmKind, JobState, Mode, Outcome, PlannedJob
from vkbench.programs.build import Build
from vkbench.programs.places.folder import FolderPlace
from vkbench.programs.places.place import key_of_file
from vkbench.programs.program import Program
from vkbench.programs.signed import sign_for
from vkbench.programs.store import BuildStore
from vkbench.programs.transfer import send
from vkbench_db.work import store

SCRIPT = Path(hostile_program.__file__)
REFUSED = ("Permission denied", "Operation not permitted")
FOLDER_OF_SCRIPT = "hostile_program.py"


class Owner:
    """Who hands in builds of the hostile program."""

    def __init__(self, folder: Path, port: int, place: FolderPlace) -> None:
        self._key = new_ssh_key(folder / "ann")
        self.allowed = allow(folder / "allowed", {"ann@lab": self._key})
        self._builds = BuildStore(folder / "user")
        self._place = place
        self._program = Program(
            name="hostile",
            description="does harm",
            adapter="lines",
            needs=(FOLDER_OF_SCRIPT,),
            run=("python3", FOLDER_OF_SCRIPT, str(folder), str(port)),
        )

    def add(self) -> Build:
        """A build, which is sent nowhere yet."""
        return self._builds.add("hostile", {FOLDER_OF_SCRIPT: lambda: SCRIPT.open("rb")})

    def send(self, build: Build) -> None:
        """Sign it, and put it where workers get it."""
        signed = sign_for(self._place, self._program, build, self._key)
        send(build, signed, self._builds, self._place)


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
    """A run of the hostile program's cases; its number."""
    jobs = [
        PlannedJob(
            device=lab.key("a"),
            case=f"hostile:{name}",
            mode=Mode.CORRECTNESS,
            variant="hostile",
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
        if FOLDER_OF_SCRIPT.encode() in words:
            found.append(int(place.parent.name))
    return found


@pytest.mark.timeout(120)
def test_what_a_build_does_costs_its_own_cases(lab: Lab, owner: Owner, tmp_path: Path) -> None:
    build = owner.add()
    owner.send(build)
    tried = ("write", "read", "connect", "leave", "kill", "fork")
    run = submit(lab, build, tried)
    endless = submit(lab, build, ("hang", "print", "complain", "chatter"), limit=1.0)
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


@pytest.mark.timeout(120)
def test_a_build_that_does_not_come_makes_its_jobs_wait(
    lab: Lab, owner: Owner, tmp_path: Path
) -> None:
    build = owner.add()
    run, other = submit(lab, build, ["nothing"]), lab.submit(["sleep/f32/n10"])
    lab.await_end(other)
    assert lab.counts(other) == {JobState.PASSED: 1}
    until(lambda: "is awaited: " in lab.jobs(run)[0].reason, "nothing says why it waits", 20)
    reason = lab.jobs(run)[0].reason
    assert reason.startswith(f"build {build.sha[:12]} is awaited: {tmp_path / 'store'} has no such")
    owner.send(build)
    place = tmp_path / "store" / key_of_file(build.files[0].sha)
    place.chmod(0o644)
    place.write_bytes(SCRIPT.read_bytes()[::-1])
    until(lambda: "is another file" in lab.jobs(run)[0].reason, "it ran", 30)
    shutil.copy(SCRIPT, place)
    lab.await_end(run, seconds=30)
    lab.check(run)
    [job] = lab.jobs(run)
    assert (job.state, job.reason, job.tries) == (JobState.SKIPPED, "nothing", 1)
    assert os.listdir(lab.settings.build_folder() / "builds") == [f"{build.sha}.json"]
