"""A worker keeps the fetched bundles that were used last, and all that people built."""

from __future__ import annotations

import os
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


def test_what_people_built_stays(tmp_path: Path) -> None:
    add(tmp_path, "built", 1000, is_fetched=False)
    note(tmp_path, "built")
    assert evict(tmp_path, 0) == []
    assert kept(tmp_path) == ["built"]
    assert evict(tmp_path / "none", 0) == []
