"""The wheel: for every platform, with its kernels compiled.

`tests/e2e/test_offline.py` holds that another tree without git makes the same bytes.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import vkbench
from vkbench_shaders.bundle import load, packaged_sha
from wheels import wheel_of_checkout

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel_of_checkout(tmp_path_factory)


@pytest.fixture
def members(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


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
