"""`vkbench run --peer` on a real device: both sides in turns, stored and shown."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

Vkbench = Callable[..., Any]

CASES = ("mul_mat/q4_0/m64_n17_k256", "conv2d/f32/n1_c3_h9_w9_o4_r3_s3")


def test_numpy_and_our_kernel_are_compared_on_one_device(vkbench: Vkbench) -> None:
    chosen = [word for case in CASES for word in ("--case", case)]
    wanted = ("--mode", "performance", "--seconds", "0.1", "--peer", "numpy")
    ended = vkbench("run", *chosen, *wanted)
    assert ended.code == 0, ended.err
    said = " ".join(ended.err.split())
    assert f"1 case not compared: numpy has no conv2d ({CASES[1]})" in said
    assert "numpy: calls back to back on the same arrays" in said
    row, left = json.loads(vkbench("compare", "--peer", "numpy", "--json").out)["rows"]
    assert [row["case"], left["case"]] == list(CASES)
    assert (left["ratio"], left["reason"]) == (None, "numpy has no conv2d")
    assert row["ratio"] == pytest.approx(row["theirs_seconds"] / row["ours_seconds"])
    assert "weights=f32" in row["settings"]
    found = json.loads(vkbench("results", "--mode", "peer", "--json").out)["rows"]
    assert {result["verdict"] for result in found} == {"passed", "skipped"}
    assert {(result["variant"], result["mode"]) for result in found} == {("numpy", "peer")}


@pytest.mark.timeout(180)
def test_ggml_is_asked_by_its_own_program(
    vkbench: Vkbench, need: Callable[[str, str], NoReturn]
) -> None:
    if not shutil.which("test-backend-ops"):
        need("ggml", "llama.cpp's test-backend-ops is not on the PATH")
    wanted = ("--mode", "performance", "--seconds", "0.1", "--peer", "ggml")
    cases = ("--case", "add/f32/b1_c1_h64_w1024", "--case", "exp2/f32/b1_c1_h1_w8")
    ended = vkbench("run", *cases, *wanted)
    assert ended.code == 0, ended.err
    said = " ".join(ended.err.split())
    assert "1 case not compared: ggml has no exp2" in said
    assert "ggml: a graph of the operation" in said
    row, left = json.loads(vkbench("compare", "--peer", "ggml", "--json").out)["rows"]
    assert left["reason"] == "ggml has no exp2"
    assert row["case"] == "add/f32/b1_c1_h64_w1024"
    assert "op=ADD" in row["settings"]
