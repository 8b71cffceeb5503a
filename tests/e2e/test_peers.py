"""`vkbench run --peer` on a real device: both sides in turns, stored and shown."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vkbench_detection.statistics.ratios import TOO_WIDE

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
    ratio = row["theirs_seconds"] / row["ours_seconds"]
    is_too_noisy = max(row["ours_spread"], row["theirs_spread"]) > TOO_WIDE  # as processors are
    assert row["ratio"] == (None if is_too_noisy else pytest.approx(ratio))
    assert row["change"] == ("too noisy" if is_too_noisy else "")
    assert "weights=f32" in row["settings"]
    found = json.loads(vkbench("results", "--mode", "peer", "--json").out)["rows"]
    assert {result["verdict"] for result in found} == {"passed", "skipped"}
    assert {(result["variant"], result["mode"]) for result in found} == {("numpy", "peer")}


@pytest.mark.timeout(400)
def test_ggml_and_our_kernel_are_compared_by_one_judge(
    new_lavapipe: Path, ggml_folder: Path
) -> None:
    """On the newer lavapipe: Debian's frees buffers twice under graphs of many launches."""

    def vkbench(*words: str) -> Any:
        environ = os.environ | {"VKBENCH_GGML": str(ggml_folder)}
        command = [str(new_lavapipe / "vkbench"), *words]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    wanted = ("--mode", "performance", "--seconds", "0.1", "--peer", "ggml")
    cases = ("--case", "add/f32/b1_c1_h64_w1024", "--case", "exp2/f32/b1_c1_h1_w8")
    ended = vkbench("run", *cases, *wanted)
    assert ended.returncode == 0, ended.stderr
    said = " ".join(ended.stderr.split())
    assert "1 case not compared: ggml has no exp2" in said
    assert "ggml: the operation back to back on the same arrays" in said
    row, left = json.loads(vkbench("compare", "--peer", "ggml", "--json").stdout)["rows"]
    assert left["reason"] == "ggml has no exp2"
    assert row["case"] == "add/f32/b1_c1_h64_w1024"
    assert row["settings"].startswith("version=")
