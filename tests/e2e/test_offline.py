"""A GPU host without a network: `make offline`, its folder installed with no index, commands there.

Such a host has the worker role alone: no scipy, no ruptures, no database driver. What its commands
import is tried here in an environment that has nothing else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from copied_packages import ROOT
from shared_folder import shared_folder
from wheels import NAME, copy_for_image, wheel_of_checkout

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
ADD = ("run", "--case", "add/f32/b1_c1_h1_w4096", "--seconds", "0.05")

# whichever test comes first waits for the folder
pytestmark = pytest.mark.timeout(400)

Vkbench = Callable[..., Any]
Host = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def installed(
    tmp_path_factory: pytest.TempPathFactory, need: Callable[[str, str], NoReturn]
) -> Path:
    """The virtual environment of a host that got nothing but the folder."""
    with shared_folder(tmp_path_factory, "offline") as folder:
        if not (folder / "venv/bin/vkbench").exists():
            _install(folder, need)
    return folder / "venv"


def _install(folder: Path, need: Callable[[str, str], NoReturn]) -> None:
    if subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, "vine"],
        capture_output=True,
        check=False,
    ).returncode:
        need("index", "pip reaches no package index")
    copy_for_image(folder / "tree")
    made = subprocess.run(
        [ROOT / "scripts/offline", PYTHON, Path(sys.prefix), folder / "offline"],
        cwd=folder / "tree",
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    done = subprocess.run(
        [folder / "offline/install.sh", folder / "venv"],
        env=plain | {"PIP_CONFIG_FILE": os.devnull, "PATH": f"{_pythons()}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _pythons() -> Path:
    """Where this interpreter's own `python3.x` lies, outside any virtual environment."""
    return Path(sys.base_prefix) / "bin"


@pytest.fixture
def host(installed: Path, vkbench: Vkbench) -> Host:
    """`host("run")` is that command on the host; `vkbench` says whether it has a device."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [installed / "bin/vkbench", *words], capture_output=True, text=True, check=False
        )

    return run


def test_the_folder_installs_a_worker_and_no_more(installed: Path) -> None:
    names = {path.name.partition("-")[0] for path in installed.rglob("*.dist-info")}
    assert {"vkbench", "numpy", "vulkan"} <= names
    assert not names & {"scipy", "ruptures", "psycopg"}


def test_its_wheel_is_that_of_a_checkout(
    installed: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It was built as the container's image builds it."""
    wheel, again = wheel_of_checkout(tmp_path_factory), installed.with_name("offline") / NAME
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        assert set(second.namelist()) == set(first.namelist())
    assert again.read_bytes() == wheel.read_bytes()


def test_it_runs_cases_and_says_who_screens_them(
    host: Host, vkbench: Vkbench, database: Path, tmp_path: Path
) -> None:
    database.unlink()  # the first run makes it
    file = tmp_path / "results.jsonl"
    for repeat, said in enumerate(("", "not screened for regressions")):
        ended = host(*ADD, "--export", str(file))
        assert ended.returncode == 0, ended.stderr
        assert said in ended.stderr
        assert bool(said) == ("detection" in ended.stderr), repeat
    again = tmp_path / "again.jsonl"
    assert host("export", "last", "-o", str(again)).returncode == 0
    assert again.read_bytes() == file.read_bytes()
    there = ("--database", str(tmp_path / "there.db"))
    ended = vkbench("import", str(file), *there)
    assert ended.code == 0, ended.err
    assert "screened" not in ended.err
    timed = vkbench("results", "--mode", "performance", *there, "--json").rows
    assert [row["case"] for row in timed] == [ADD[2]]


def test_it_runs_one_kernel_on_arrays(host: Host, tmp_path: Path) -> None:
    given, found = tmp_path / "in.npz", tmp_path / "out.npz"
    x = np.arange(8, dtype=np.float32).reshape(1, 1, 1, 8)
    np.savez(given, x=x)
    ended = host("exec", "silu", "--input", str(given), "--output", str(found))
    assert ended.returncode == 0, ended.stderr
    with np.load(found) as archive:
        np.testing.assert_allclose(archive["y"], x / (1 + np.exp(-x)), rtol=1e-6)


def test_it_calibrates_its_device(host: Host, database: Path) -> None:
    ended = host("calibrate", "--json")
    assert ended.returncode == 0, ended.stderr
    [found] = json.loads(ended.stdout)["rows"]
    for name in ("read_bytes", "copy_bytes", "fma_f32"):
        assert 1e7 < found[f"{name}_per_second"] < 1e15
    assert 1e-8 < found["launch_seconds"] < 1e-2
    assert 0 < found["tick_seconds"] < 1e-5
    assert 0 <= found["noise"] < 1
    assert json.loads(host("calibrate", "--show", "--json").stdout)["rows"] == [found]
    timed = json.loads(host("results", "--run", "1", "--mode", "performance", "--json").stdout)[
        "rows"
    ]
    passed = [row for row in timed if row["verdict"] == "passed"]
    assert len(passed) >= 5
    # a processor's caches may be larger than what a CPU driver lends to displace them
    cold = [row for row in passed if not row["remark"].startswith("not cold")]
    assert cold
    assert all(row["cold_roof_fraction"] > 0 for row in cold)
    chains = [row["path_fraction"] for row in passed if row["case"].startswith("fma/f32")]
    assert max(chains) == pytest.approx(1)  # they are what it is measured by
    launch = next(row for row in passed if row["case"] == "launch/u32/n1")
    assert launch["roof_fraction"] is None  # one word stays in the cache
    [device] = json.loads(host("devices", "--json").stdout)["rows"]
    assert device["canary"] == "new"


def test_it_finds_nothing_missing_for_its_role(host: Host) -> None:
    ended = host("doctor", "--json")
    assert ended.returncode == 0, ended.stderr
    lacking = {row["check"] for row in json.loads(ended.stdout)["rows"] if row["state"] != "ok"}
    assert "package scipy" in lacking
    assert not lacking & {"package gguf", "package vulkan", "package celery", "package redis"}


def test_what_compares_results_says_what_to_install(host: Host, database: Path) -> None:
    for _ in range(2):
        assert host(*ADD).returncode == 0
    bisect = ("bisect", "--case", ADD[2], "--bundles", "1a2b,3c4d")
    for words in (
        ("compare", "1", "2"),
        ("regressions", "scan"),
        ("regressions", "confirm"),
        bisect,
    ):
        ended = host(*words)
        assert ended.returncode == 4, words
        assert ended.stderr.strip().endswith("is missing: pip install 'vkbench[detection]'")


def test_it_lists_its_bundle(host: Host) -> None:
    ended = host("bundle", "ls", "--json")
    assert ended.returncode == 0, ended.stderr
    assert "packaged" in {row["name"] for row in json.loads(ended.stdout)["rows"]}


def test_its_worker_starts_and_asks_for_redis(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKBENCH_REDIS", "redis://127.0.0.1:1/0")
    ended = host("worker", "--wait", "0")
    assert ended.returncode == 8, ended.stderr
    assert "127.0.0.1:1" in ended.stderr
