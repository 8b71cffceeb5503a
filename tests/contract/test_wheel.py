"""The wheel: for every platform, with its kernels compiled, the same bytes every time."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import vkbench
from copied_packages import copy_packages
from shared_folder import shared_folder
from vkbench_shaders.bundle import load, packaged_sha

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ROOT = Path(__file__).parents[2]
NAME = f"vkbench-{vkbench.__version__}-py3-none-any.whl"


def built(folder: Path, tree: Path = ROOT) -> Path:
    """The wheel of a tree, built without an environment of its own."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / NAME


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with shared_folder(tmp_path_factory, "wheel") as folder:
        return folder / NAME if (folder / NAME).exists() else built(folder)


@pytest.fixture
def members(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_it_is_the_same_without_git_and_compiled_kernels(wheel: Path, tmp_path: Path) -> None:
    """As the container's image builds it: from what .dockerignore lets through."""
    copy_packages(tmp_path)
    let_through = re.findall(r"^!(.+)", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    for file in (file for pattern in let_through for file in ROOT.glob(pattern) if file.is_file()):
        shutil.copy(file, tmp_path)
    assert not (tmp_path / ".gitignore").exists()
    again = built(tmp_path / "dist", tmp_path)
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        assert set(second.namelist()) == set(first.namelist())
    assert again.read_bytes() == wheel.read_bytes()


def test_it_holds_every_part_and_nothing_else(members: list[str]) -> None:
    assert {name.split("/")[0] for name in members} == {
        "vkbench",
        "vkbench_cli",
        "vkbench_db",
        "vkbench_detection",
        "vkbench_local",
        "vkbench_scheduler",
        "vkbench_shaders",
        "vkbench_tables",
        "vkbench_web",
        "vkbench_worker",
        f"vkbench-{vkbench.__version__}.dist-info",
    }


def test_it_holds_kernels_compiled_and_as_sources(
    members: list[str], wheel: Path, tmp_path: Path
) -> None:
    folder = "vkbench_shaders/spirv/"
    compiled = [name for name in members if name.startswith(folder)]
    assert sorted(compiled) == [folder + "code.zip", folder + "manifest.json"]
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path, compiled)
    assert load(tmp_path / folder).check().sha == packaged_sha()
    assert "vkbench_shaders/slang/moves/copy.slang" in members


def test_it_holds_licences_types_and_migrations(members: list[str]) -> None:
    licences = f"vkbench-{vkbench.__version__}.dist-info/licenses/"
    assert {licences + "LICENSE-MIT", licences + "LICENSE-APACHE"} <= set(members)
    assert {"vkbench/py.typed", "vkbench_worker/py.typed"} <= set(members)
    assert any("/migrations/versions/" in name for name in members)
