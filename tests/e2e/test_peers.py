"""`vkbench run --peer` on a real device: both sides in turns, stored and shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

Vkbench = Callable[..., Any]

CASES = ("mul_mat/q4_0/m64_n17_k256", "conv2d/f32/n1_c3_h9_w9_o4_r3_s3")


def test_numpy_and_our_kernel_are_compared_on_one_device(vkbench: Vkbench) -> None:
    chosen = [word for case in CASES for word in ("--case", case)]
    wanted = ("--mode", "performance", "--seconds", "0.1", "--peer", "numpy")
    ended = vkbench("run", *chosen, *wanted)
    assert ended.code == 0, ended.err
    said = " ".join(ended.err.split())
    assert "1 case not compared: numpy has no conv2d" in said
    assert "numpy: calls back to back on the same arrays" in said
    [row] = json.loads(vkbench("compare", "--peer", "numpy", "--json").out)["rows"]
    assert row["case"] == CASES[0]
    assert row["ratio"] == pytest.approx(row["theirs_seconds"] / row["ours_seconds"])
    assert "weights=f32" in row["settings"]
    found = json.loads(vkbench("results", "--mode", "peer", "--json").out)["rows"]
    assert {result["verdict"] for result in found} == {"passed", "skipped"}
    assert {(result["variant"], result["mode"]) for result in found} == {("numpy", "peer")}
