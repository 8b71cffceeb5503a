"""Attempts by another user of the host: the files that tell of somebody's kernels are closed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kept_bundles import bundle_of_tree
from vkbench_shaders.bundle import BundleStore
from vkbench_worker.service import fetched

VKBENCH = Path(sys.executable).with_name("vkbench")


@contextmanager
def open_to_all() -> Iterator[None]:
    """Files and folders are for everybody, where nothing else is said."""
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def open_paths(folder: Path) -> list[Path]:
    """What others than its user can look into."""
    found = [folder, *folder.rglob("*")]
    return [path for path in found if stat.S_IMODE(path.stat().st_mode) & 0o077]


def test_kept_bundles(tmp_path: Path) -> None:
    """Workers keep fetched ones, schedulers and people those that they built."""
    bundle = bundle_of_tree("somebody")
    with open_to_all():
        BundleStore(tmp_path / "bundles").put(bundle)
        fetched.note(tmp_path / "bundles", bundle.sha, is_new=True)
        bundle.save(tmp_path / "output")
        bundle.save(tmp_path / "output")  # again, in place of an older one
    assert (tmp_path / "bundles" / bundle.sha).is_dir()
    assert open_paths(tmp_path / "bundles") == []
    assert open_paths(tmp_path / "output") == []


def test_packaged_kernels_are_for_every_user(tmp_path: Path) -> None:
    """Root installs them, and another user runs them."""
    with open_to_all():
        bundle_of_tree("packaged").save(tmp_path / "spirv", is_public=True)
    folder = tmp_path / "spirv"
    assert set(open_paths(folder)) == {folder, *folder.iterdir()}


@pytest.mark.parametrize("words", [["kernel", "new"], ["bundle", "tree"]])
def test_folders_that_people_edit(words: list[str], tmp_path: Path) -> None:
    with open_to_all():
        subprocess.run([VKBENCH, *words, tmp_path / "mine"], check=True, capture_output=True)
    assert stat.S_IMODE((tmp_path / "mine").stat().st_mode) == 0o700
