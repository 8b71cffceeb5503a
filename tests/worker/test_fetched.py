"""A worker keeps the fetched bundles that were used last, and all that people built."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from vkbench_worker.service.fetched import MARK, evict, note

SIZE = 1000


def add(folder: Path, name: str, hours: float, *, is_fetched: bool = True) -> None:
    """A bundle that was used so many hours ago."""
    (folder / name).mkdir(parents=True)
    (folder / name / "manifest.json").write_bytes(bytes(SIZE))
    if is_fetched:
        note(folder, name, is_new=True)
        used = time.time() - 3600 * hours
        os.utime(folder / name / MARK, (used, used))


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("most", "left"),
    [(4 * SIZE, ["a", "b", "c", "now"]), (2 * SIZE, ["c", "now"]), (0, ["now"])],
)
def test_the_longest_unused_go_first(tmp_path: Path, most: int, left: list[str]) -> None:
    for name, hours in (("b", 30), ("a", 40), ("now", 0), ("c", 2)):
        add(tmp_path, name, hours)
    assert set(evict(tmp_path, most)) == {"a", "b", "c"} - set(left)
    assert kept(tmp_path) == left


def test_a_use_counts(tmp_path: Path) -> None:
    for name, hours in (("a", 40), ("b", 30)):
        add(tmp_path, name, hours)
    note(tmp_path, "a")
    assert evict(tmp_path, SIZE) == ["b"]


def test_a_bundle_goes_though_a_process_was_killed_while_it_removed_it(tmp_path: Path) -> None:
    add(tmp_path, "a", 40)
    add(tmp_path / ".old-a", "blobs", 40)
    assert evict(tmp_path, 0) == ["a"]
    assert kept(tmp_path) == []


def test_two_workers_may_remove_bundles_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, hours in (("a", 40), ("b", 30), ("c", 20)):
        add(tmp_path, name, hours)
    stat, rmtree = Path.stat, shutil.rmtree

    def gone(path: Path) -> None:
        rmtree(tmp_path / "a", ignore_errors=True)
        if path.name == ".old-b":
            rmtree(tmp_path / "c", ignore_errors=True)

    def stat_late(path: Path, **options: bool) -> os.stat_result:
        gone(path)
        return stat(path, **options)

    def remove_slowly(path: Path, ignore_errors: bool) -> None:
        gone(path)
        rmtree(path, ignore_errors)

    monkeypatch.setattr(Path, "stat", stat_late)
    monkeypatch.setattr(shutil, "rmtree", remove_slowly)
    assert evict(tmp_path, 0) == ["b"]


def test_what_people_built_stays(tmp_path: Path) -> None:
    add(tmp_path, "built", 1000, is_fetched=False)
    note(tmp_path, "built")
    assert evict(tmp_path, 0) == []
    assert kept(tmp_path) == ["built"]
    assert evict(tmp_path / "none", 0) == []
