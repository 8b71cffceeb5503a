"""`vkbench calibrate` on a real device: what it reaches, and results that know of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Vkbench = Callable[..., Any]


@pytest.mark.timeout(180)
def test_a_device_is_calibrated_and_its_results_are_held_against_that(
    vkbench: Vkbench, tmp_path: Path
) -> None:
    store = ("--database", str(tmp_path / "results.db"))
    ended = vkbench("calibrate", *store, "--json")
    assert ended.code == 0, ended.err
    [found] = ended.rows
    for name in ("read_bytes", "copy_bytes", "fma_f32"):
        assert 1e7 < found[f"{name}_per_second"] < 1e15
    assert 1e-8 < found["launch_seconds"] < 1e-2
    assert 0 < found["tick_seconds"] < 1e-5
    assert 0 <= found["noise"] < 1
    assert vkbench("calibrate", "--show", *store, "--json").rows == [found]
    timed = vkbench("results", "--run", "last", "--mode", "performance", *store, "--json").rows
    shares = {row["case"]: row["roof_fraction"] for row in timed if row["verdict"] == "passed"}
    assert len(shares) >= 5
    assert all(share is not None and share > 0 for share in shares.values())
    [device] = vkbench("devices", *store, "--json").rows
    assert device["canary"] == "new"
