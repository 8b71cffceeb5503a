"""Builds of a program through the fleet: submitted, fetched by hash, run, compared and blamed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from cluster import Lab, free_port, until
from planted_builds import add_planted, add_shipped
from planted_git import commit, git
from planted_lines import COPY, NAME, SUM, add_program, script_of
from planted_sources import start_repository
from ssh_keys import allow, new_ssh_key
from vkbench.device import DeviceFacts
from vkbench.job import Mode
from vkbench.messages.keys import new_keys
from vkbench.programs.build import Build
from vkbench.programs.places.opening import open_place
from vkbench.programs.registry import ProgramStore
from vkbench.programs.signed import sign_for
from vkbench.programs.store import BuildStore
from vkbench.programs.transfer import send
from vkbench_db import schema
from vkbench_db.ask import queries
from vkbench_db.upkeep import bisections
from vkbench_db.upkeep.bisections import FOUND, Bisection
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.submit import submit

PRODUCT = "mul_mat_vec/q4_0/m64_n1_k1024"
RIGHT, WRONG = "add(request)", "array.array('f', [0.0] * len(add(request)))"
# Writes a sum, and is timed for as long as it sleeps, on however busy a machine.
BENCH = """\
if request.get("outputs"): write(request, {answer})
samples = [{seconds} + i * 1e-6 for i in range(15 * is_timed)]
for seconds in samples: time.sleep(seconds)
say(samples=samples)  # {name}
"""
# A revision whose file is empty does not build.
DECLARED = f"""\
name = "{NAME}"
description = "planted"
adapter = "lines"
needs = ["bench"]
run = ["./bench"]
[build]
command = "test -s bench; mkdir out; cp bench out"
folder = "out"
"""
MakeLab = Callable[..., Lab]


class BuildLab:
    """A lab with a scheduler, a worker elsewhere, and a user who submits builds."""

    def __init__(self, lab: Lab, commands: Path, key: Path) -> None:
        self.lab, self._commands, self._key = lab, commands, key
        self.user = replace(lab.settings, data=lab.folder / "user", build_key=key)
        self.builds = BuildStore(self.user.build_folder())

    def serve(self, port: int) -> None:
        """Start a scheduler that serves builds, and a worker, by commands."""
        store = {"VKBENCH_STORE": str(self.lab.folder / "store")}
        self._spawn("scheduler", "--builds", str(port), log="scheduler", **store)
        self._spawn("worker", "--device", "llvmpipe", log="worker")
        until(self._devices, "no device", 60)

    def start(self) -> None:
        """Start a scheduler and a worker, which share the folder where builds lie."""
        self.lab.start_scheduler()
        self.lab.start("-m", "vkbench_worker.service.main", "llvmpipe", log="worker")
        until(self._devices, "no device", 60)

    def add(self, name: str, *, seconds: float, answer: str = RIGHT) -> Build:
        """A build of a program of the user, which takes so long for each answer."""
        body = BENCH.format(answer=answer, seconds=seconds, name=name)
        return add_program(self.user, body, self.lab.folder / name, name)

    def run(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """A command of the user, which ends with this code."""
        command, env = [str(self._commands / "vkbench"), *words], self._environ()
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        assert done.returncode == code, done.stderr
        return done

    def submit(self, build: Build, case: str, mode: Mode = Mode.CORRECTNESS) -> int:
        """A run of a case by a build, as `vkbench submit` makes it."""
        place = open_place(self.lab.settings)
        program = ProgramStore(self.user.program_folder()).find(build.program)
        send(build, sign_for(place, program, build, self._key), self.builds, place)
        selection = Selection(cases=(case,), mode=mode)
        return submit(self.lab.database, selection, self._devices(), build=build).run.id

    def start_command(self, *words: str) -> subprocess.Popen[bytes]:
        """A command of the user, which goes on."""
        command, output = [str(self._commands / "vkbench"), *words], subprocess.PIPE
        process = subprocess.Popen(command, env=self._environ(), stdout=output, stderr=output)
        self.lab.processes.append(process)
        return process

    def bisect(self, *words: str) -> Bisection:
        """A bisection by the fleet, once it has ended."""
        number = int(self.run("bisect", *words, "--submit").stdout)
        until(lambda: self.bisection(number).finished_at, "no bisection ends", 120)
        return self.bisection(number)

    def titles(self) -> list[str]:
        """The titles of regressions."""
        with self.lab.database.reading() as tx:
            return list(tx.execute(select(schema.regression.c.title)).scalars())

    def bisections(self) -> list[Bisection]:
        """All that were begun."""
        with self.lab.database.reading() as tx:
            return bisections.list_bisections(tx)

    def bisection(self, number: int) -> Bisection:
        """A bisection as it stands."""
        with self.lab.database.reading() as tx:
            return bisections.find(tx, number)

    def _environ(self) -> dict[str, str]:
        own = {"VKBENCH_DATA": str(self.user.data), "VKBENCH_BUILD_KEY": str(self._key)}
        return self.lab.environ() | own

    def _devices(self) -> list[DeviceFacts]:
        with self.lab.database.reading() as tx:
            return [row.facts for row in queries.devices(tx)]

    def _spawn(self, *words: str, log: str, **environ: str) -> None:
        env = self.lab.environ() | environ
        with (self.lab.folder / f"{log}.log").open("ab") as output:
            command = [str(self._commands / "vkbench"), *words]
            process = subprocess.Popen(command, env=env, stdout=output, stderr=output)
        self.lab.processes.append(process)


@pytest.fixture
def build_lab(make_lab: MakeLab, new_lavapipe: Path, tmp_path: Path) -> BuildLab:
    new_keys(tmp_path / "keys")
    key, port, allowed = new_ssh_key(tmp_path / "ann"), free_port(), tmp_path / "allowed"
    lab = make_lab(
        runner="vkbench_worker.runner.main",
        keys=str(tmp_path / "keys"),
        store=f"http://127.0.0.1:{port}",
        builds=str(allow(allowed, {"ann@lab": key})),
    )
    build_lab = BuildLab(lab, new_lavapipe, key)
    build_lab.serve(port)
    return build_lab


@pytest.fixture
def lines_lab(make_lab: MakeLab, lavapipe: None, tmp_path: Path) -> BuildLab:
    """A lab that shares a folder of builds, for programs that need no GPU."""
    key = new_ssh_key(tmp_path / "ann")
    lab = make_lab(
        runner="vkbench_worker.runner.main",
        store=str(tmp_path / "store"),
        builds=str(allow(tmp_path / "allowed", {"ann@lab": key})),
    )
    lines_lab = BuildLab(lab, Path(sys.executable).parent, key)
    lines_lab.start()
    return lines_lab


@pytest.mark.timeout(300)
def test_a_slow_build_is_suspected_confirmed_and_told(lines_lab: BuildLab) -> None:
    """Each build is timed once, as a nightly submission has it, and another comes after it."""
    for name, seconds in (("b1", 1e-3), ("b2", 1e-3), ("b3", 3e-3), ("b4", 3e-3)):
        run = lines_lab.submit(lines_lab.add(name, seconds=seconds), COPY, Mode.PERFORMANCE)
        lines_lab.lab.await_end(run, seconds=60)
        assert dict(lines_lab.lab.counts(run)) == {"passed": 1}
    until(lines_lab.titles, "no regression opens", 60)
    [title] = lines_lab.titles()
    assert title.startswith("my-bench copy 3.0 times slower on llvmpipe ")
    assert " since b3 (" in title
    with lines_lab.lab.database.reading() as tx:
        [change] = tx.execute(select(schema.change_point)).all()
    assert (change.method, change.state, change.cause) == ("kin", "confirmed", "build")


@pytest.mark.timeout(400)
def test_a_slow_one_of_eight_builds_is_found_by_four(lines_lab: BuildLab) -> None:
    names = [f"b{number}" for number in range(1, 9)]
    for name in names:
        lines_lab.add(name, seconds=1e-3 if name < "b6" else 2e-3)
    slow = lines_lab.bisect("--case", SUM, "--seconds", "0.1", "--builds", ",".join(names))
    assert (slow.state, slow.note.partition(":")[0]) == (FOUND, "b6 is the first bad one")
    verdicts = {names[step.position]: step.verdict for step in slow.steps}
    assert verdicts == {"b8": "bad", "b5": "good", "b7": "bad", "b6": "bad"}


@pytest.mark.timeout(400)
def test_a_planted_build_is_found_paired_and_named(
    build_lab: BuildLab, ggml_folder: Path, tmp_path: Path
) -> None:
    lab, allowed = build_lab.lab, tmp_path / "allowed"
    old = add_shipped(build_lab.builds, ggml_folder, "old")
    add_planted(build_lab.builds, ggml_folder, "slow", tmp_path / "slow")
    wrong = add_planted(build_lab.builds, ggml_folder, "wrong", tmp_path / "wrong")
    chosen = ("--case", PRODUCT, "--seconds", "0.1")
    sent = build_lab.run("submit", "--build", "old", "--case", SUM, *chosen, "--wait")
    assert "MB of build old sent to http://" in sent.stderr
    assert "4 passed" in sent.stderr
    fetched = BuildStore(lab.settings.build_folder()).find(old.sha)
    assert fetched.files == old.files
    run = build_lab.submit(wrong, PRODUCT)
    lab.await_end(run, seconds=60)
    until(build_lab.titles, "a wrong build opens no regression", 30)
    [title] = build_lab.titles()
    assert title.startswith("ggml-vulkan mul_mat_vec q4_0 wrong on ")
    assert " since wrong (" in title
    ended = build_lab.bisect(*chosen, "--builds", "old,slow")
    assert ended.state == FOUND
    assert ended.note.startswith("slow is the first bad one: ratio ")
    [step] = ended.steps
    assert step.verdict == "bad"
    assert step.ratio
    assert step.ratio > 3  # eight times the work; the cores are shared with other tests
    tried = build_lab.run(
        *("try", "ggml-vulkan", "--old", "old", "--new", "wrong", *chosen, "--submit", "--json"),
        code=3,
    )
    [row] = json.loads(tried.stdout)["rows"]
    assert (row["case"], row["verdict"], row["ratio"]) == (PRODUCT, "wrong", None)
    allowed.write_text("# nobody any more\n")
    run = build_lab.submit(old, SUM)
    lab.await_end(run)
    assert {row.reason for row in lab.jobs(run)} == {
        f"this host does not run build {old.sha[:12]}: no key in {allowed} "
        "(VKBENCH_BUILDS) has signed it"
    }
    assert dict(lab.counts(run)) == {"skipped": 1}


@pytest.mark.timeout(400)
def test_the_fleet_bisects_revisions_whose_builds_come_when_it_asks(
    lines_lab: BuildLab, tmp_path: Path
) -> None:
    """Of eight, one of which does not build, five are built until the first wrong one is known."""
    repository = start_repository(tmp_path / "repository")
    for place, answer in enumerate((RIGHT, RIGHT, RIGHT, RIGHT, RIGHT, WRONG, "", WRONG)):
        body = BENCH.format(answer=answer, seconds=1e-3, name=f"change {place}")
        (repository / "bench").write_text(script_of(body) if answer else "")
        (repository / "bench").chmod(0o755)
        commit(repository, f"change {place}")
        git(repository, "tag", f"r{place}")
    declared = tmp_path / "my-bench.toml"
    declared.write_text(DECLARED)
    words = ("--case", SUM, "--seconds", "0.1", "--program", str(declared), "--json")
    span = ("--repository", str(repository), "--revisions", "r0..r7", "--submit")
    lines_lab.run("pause", "llvmpipe")  # or the search may be over before it is interrupted
    begun = lines_lab.start_command("bisect", *words, *span)
    until(lambda: any(each.steps for each in lines_lab.bisections()), "no pair begins", 60)
    begun.send_signal(signal.SIGINT)
    _, err = begun.communicate(timeout=30)
    lines_lab.run("resume", "llvmpipe")
    assert begun.returncode == 130
    assert "`vkbench bisect --resume 1 --submit` makes it" in err.decode()
    found = lines_lab.run("bisect", "--resume", "1", "--submit", "--json")
    verdicts = [row["verdict"] for row in json.loads(found.stdout)["rows"]]
    assert verdicts == ["taken as good", "", "", "", "good", "wrong", "", "wrong"]
    assert " change 6 is passed over: it does not build: the command ended with" in found.stderr
    assert "5 of 8 revisions were built" in found.stderr
    assert " change 5 is the first bad one: wrong" in found.stderr
