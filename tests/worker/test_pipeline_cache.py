"""Cache files are whole or as good as absent."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from vkbench_worker.runtime.vulkan.pipeline_cache import (
    ABANDONED_SECONDS,
    load,
    remove_abandoned,
    store,
)


def test_what_is_stored_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "device.bin"
    for data in (b"", b"first", bytes(range(256)) * 100):
        store(path, data)
        assert load(path) == data
    assert [file.name for file in tmp_path.iterdir()] == ["device.bin"]


@pytest.mark.parametrize("damage", [b"", b"rubbish", b"vkbench pipelines 1\n"])
def test_a_file_that_is_not_ours_is_nothing(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "device.bin"
    path.write_bytes(damage)
    assert load(path) == b""


def test_every_changed_byte_and_every_cut_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "device.bin"
    store(path, b"pipelines")
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert load(path) == b""
        path.write_bytes(whole[:at])
        assert load(path) == b""


def test_no_file_is_nothing(tmp_path: Path) -> None:
    assert load(tmp_path / "absent.bin") == b""


def test_what_a_killed_process_left_half_written_is_removed(tmp_path: Path) -> None:
    store(tmp_path / "device.bin", b"pipelines")
    for name in ("device.binabc123", "other.binxyz", "device.lock", "young.bin123"):
        (tmp_path / name).touch()
    long_ago = time.time() - ABANDONED_SECONDS - 1
    for path in tmp_path.iterdir():
        if not path.name.startswith("young"):
            os.utime(path, (long_ago, long_ago))
    remove_abandoned(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"device.bin", "device.lock", "young.bin123"}
