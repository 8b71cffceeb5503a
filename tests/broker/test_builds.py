"""Builds of a program through the fleet: submitted, fetched by hash, run, compared and blamed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from cluster import Lab, free_port, until
from planted_builds import add_planted, add_shipped
from ssh_keys import allow, new_ssh_key
from vkbench.job import Mode
from vkbench.messages.keys import new_keys
from vkbench.programs.build import Build
from vkbench.programs.places.opening import open_place
from vkbench.programs.program import GGML_VULKAN
from vkbench.programs.signed import sign_for
from vkbench.programs.store import BuildStore
from vkbench.programs.transfer import send
from vkbench_db import schema
from vkbench_db.ask import queries
from vkbench_db.upkeep import bisections
from vkbench_db.upkeep.bisections import FOUND, Bisection
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.submit import submit

SUM = "add/f32/b1_c1_h8_w64"
PRODUCT = "mul_mat_vec/q4_0/m64_n1_k1024"
MakeLab = Callable[..., Lab]


class BuildLab:
    """A lab with a scheduler that serves builds, a worker elsewhere, and a user who submits."""

    def __init__(self, lab: Lab, commands: Path, key: Path) -> None:
        self.lab, self._commands = lab, commands
        self._user = {"VKBENCH_DATA": str(lab.folder / "user"), "VKBENCH_BUILD_KEY": str(key)}
        self.builds = BuildStore(lab.folder / "user" / "builds")
        self._key = key

    def start(self, served: int) -> None:
        """Start the scheduler and a worker."""
        store = {"VKBENCH_STORE": str(self.lab.folder / "store")}
        self._spawn("scheduler", "--builds", str(served), log="scheduler", **store)
        self._spawn("worker", "--device", "llvmpipe", log="worker")
        until(lambda: json.loads(self.run("devices", "--json").stdout)["rows"], "no device", 60)

    def run(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """A command of the user, which ends with this code."""
        env = self.lab.environ() | self._user
        command = [str(self._commands / "vkbench"), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        assert done.returncode == code, done.stderr
        return done

    def submit(self, build: Build, case: str) -> int:
        """A check of a case by a build, as `vkbench submit` makes it."""
        place = open_place(self.lab.settings)
        send(build, sign_for(place, GGML_VULKAN, build, self._key), self.builds, place)
        with self.lab.database.reading() as tx:
            devices = [row.facts for row in queries.devices(tx)]
        selection = Selection(cases=(case,), mode=Mode.CORRECTNESS)
        return submit(self.lab.database, selection, devices, build=build).run.id

    def titles(self) -> list[str]:
        """The titles of regressions."""
        with self.lab.database.reading() as tx:
            return list(tx.execute(select(schema.regression.c.title)).scalars())

    def bisection(self, number: int) -> Bisection:
        """A bisection as it stands."""
        with self.lab.database.reading() as tx:
            return bisections.find(tx, number)

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
    build_lab.start(port)
    return build_lab


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
    number = int(build_lab.run("bisect", *chosen, "--builds", "old,slow", "--submit").stdout)
    until(lambda: build_lab.bisection(number).finished_at, "no bisection ends", 120)
    ended = build_lab.bisection(number)
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
