"""Whoever writes the folder in which a user starts vkbench has none of his files run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path

import pytest

from trapped_folder import TrappedFolder
from vkbench.job import Job, Mode, Outcome
from vkbench.settings import settings
from vkbench_local.selftest import trial
from vkbench_shaders.bundle import packaged
from vkbench_shaders.compile.compiler import NoCompiler, _fetch_compiler
from vkbench_worker.judging.preparer import Preparer, Request
from vkbench_worker.peers.processes import Peers
from vkbench_worker.protocol import Ready
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime.null import NullDevice

ROOT = Path(__file__).parents[2]
PLANTED = ROOT / "tests" / "planted"
VKBENCH = Path(sys.executable).with_name("vkbench")
PACKAGES = ("vkbench", "shaders", "worker", "scheduler", "db", "local", "tables", "cli", "web")
# Where programs may name the interpreter: what starts it, and a reader that takes nothing with it.
INTERPRETER = ("vkbench/process/interpreter.py", "db/vkbench_db/ask/sql/readonly.py")


@pytest.fixture
def trapped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TrappedFolder:
    """The folder in which this process stands."""
    folder = TrappedFolder(tmp_path / "trapped")
    monkeypatch.chdir(folder.folder)
    return folder


def test_the_traps_run_where_nothing_is_done_about_them(trapped: TrappedFolder) -> None:
    subprocess.run([sys.executable, "-m", "vkbench_worker.runner.listing"], capture_output=True)
    assert trapped.ran


def goes_on(line: str) -> bool:
    """Whether a worker has neither come as far as Redis nor fallen."""
    return "Cannot connect to redis" not in line and "worker_fell" not in line


def test_a_worker_runs_nothing_of_its_folder(trapped: TrappedFolder) -> None:
    """Nor do its device's process and the runner, until they look for a Redis that is not there."""
    serve = "from vkbench.settings import settings; from vkbench_worker.service.main import serve"
    command = [sys.executable, "-P", "-c", f"{serve}\nserve(['0'], settings())"]
    planted = {"VKBENCH_RUNNER": "planted_runner", "PYTHONPATH": str(PLANTED)}
    environ = {**os.environ, **planted, "VKBENCH_REDIS": "redis://127.0.0.1:9/0"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ) as worker:
        assert worker.stderr
        said = list(takewhile(goes_on, worker.stderr))
        worker.terminate()
        worker.stderr.read()
    assert any("worker_ready" in line for line in said)
    assert trapped.ran == []


def test_a_command_runs_nothing_of_its_folder(trapped: TrappedFolder) -> None:
    ended = subprocess.run([VKBENCH, "devices", "--local"], capture_output=True)
    assert ended.returncode in (0, 4), ended.stderr
    assert trapped.ran == []


def test_processes_that_simulate_nights_run_nothing_of_it(trapped: TrappedFolder) -> None:
    part = trial.Part(scenario="A/A", seed=0, first=0, devices=0)
    tried = list(trial._try_parts([part, replace(part, seed=1)]))
    assert (len(tried), trapped.ran) == (2, [])


def test_a_peer_runs_nothing_of_its_folder(trapped: TrappedFolder) -> None:
    null = NullDevice()
    ready = Ready(facts=null.facts, environment=null.environment)
    peer = Job(id=1, token=1, case="mul_mat/f32/m17_n5_k64", mode=Mode.PEER, variant="numpy")
    job = replace(peer, measure_seconds=0.01)
    with ThreadPoolExecutor(1) as parent:
        peers = Peers(settings(), parent)
        result = peers.in_turns(job, ready, partial(execute, null, packaged()), lambda: False)
        peers.close()
    assert result
    assert (result.outcome, trapped.ran) == (Outcome.PASSED, [])


def test_a_preparer_runs_nothing_of_its_folder(trapped: TrappedFolder) -> None:
    preparer = Preparer(1)
    try:
        assert preparer.answer(wait=True) is None
        preparer.ask(Request(case="copy/f32/n1000", source=None, path="exact"))
        assert preparer.answer(wait=True), "it does not work"
    finally:
        preparer.close()
    assert trapped.ran == []


def test_pip_runs_nothing_of_the_folder(
    trapped: TrappedFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(NoCompiler, match="pip cannot fetch"):
        _fetch_compiler(tmp_path / "cache")
    assert trapped.ran == []


def test_python_is_started_in_one_place() -> None:
    """A Python that is started without `python()` looks for modules in the current folder."""
    naming = {
        str(path.relative_to(ROOT))
        for part in PACKAGES
        for path in (ROOT / part).rglob("*.py")
        if re.search(r"\bsys\.executable\b", path.read_text())
    }
    assert naming == set(INTERPRETER)
