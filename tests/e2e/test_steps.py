"""A kernel of one's own in several steps, judged and timed as one."""

from __future__ import annotations

from pathlib import Path

import pytest

from planted_git import commit, git
from planted_steps import LATER, SLOW, TIMED, write_counted, write_sources, write_steps

from .conftest import Vkbench

pytestmark = pytest.mark.usefixtures("glslang")
MATRIX = "[matrix]\ndefines = { TURNS = [3, 4, 5], SHIFT = [0, 40] }\n\n[[cases]]\nshape = { m = 33"


@pytest.mark.timeout(300)
def test_steps_are_judged_and_timed_as_one(vkbench: Vkbench, tmp_path: Path) -> None:
    """Of six variants the others sum up too little or past the scratch, or write beside it."""
    path = write_steps(tmp_path / "lab", {"[[cases]]\nshape = { m = 33": MATRIX})
    write_sources(path.parent, {"part < SPLIT": "part < TURNS"})
    source = path.parent / "split.comp"
    source.write_text(source.read_text().replace("row] = sum", "row + SHIFT] = sum"))
    words = ("--variant", "all", "--case", TIMED, "--seconds", "0.05", "--json", "--all")
    ended = vkbench("run", "--kernel-file", str(path), *words)
    assert ended.code == 3, ended.err
    [timed] = [row for row in ended.rows if row["hot_seconds"]]
    assert timed["variant"] == "split_TURNS4_SHIFT0"
    assert timed["flops_per_second"] == pytest.approx(2 * 512 * 512 / timed["hot_seconds"])
    said = {row["variant"]: row["remark"] for row in ended.rows if row["verdict"] == "wrong"}
    assert len(said) == 5
    assert "NMSE of y is" in said["split_TURNS3_SHIFT0"]
    assert "512 elements of y are NaN or Inf" in said["split_TURNS5_SHIFT0"]
    assert "guard bytes of scratch partials were overwritten" in said["split_TURNS4_SHIFT40"]


def test_counters_have_to_be_zero_again(vkbench: Vkbench, tmp_path: Path) -> None:
    words = ("--mode", "correctness", "--json")
    path = write_counted(tmp_path / "right")
    assert vkbench("run", "--kernel-file", str(path), *words).code == 0
    path = write_counted(tmp_path / "wrong", {"    arrived = 0;\n": ""})
    ended = vkbench("run", "--kernel-file", str(path), *words)
    assert ended.code == 3
    assert "1 of 1 counters are not zero after a launch" in ended.rows[0]["remark"]


@pytest.mark.timeout(300)
def test_a_version_with_a_binding_more_is_paired_with_one_before(
    vkbench: Vkbench, tmp_path: Path
) -> None:
    """One declaration: the second version has an array and a scratch more, and is slow."""
    path = write_steps(tmp_path / "lab")
    tree = write_sources(tmp_path / "project" / "shaders")
    git(tree, "init", "--quiet", "..")
    commit(tree, "plain")
    write_sources(tree, LATER)
    commit(tree, "biased")
    write_sources(tree, LATER | SLOW)
    commit(tree, "slow")
    where = ("--kernel-file", str(path), "--sources", f"{tree.parent}:shaders", "--case", TIMED)
    words = ("--revisions", "HEAD~2..HEAD", "--seconds", "0.05", "--json")
    ended = vkbench("bisect", *where, *words)
    assert ended.code == 0, ended.err
    assert [row["label"].split()[-1] for row in ended.rows] == ["plain", "biased", "slow"]
    assert [row["is_first_bad"] for row in ended.rows] == [False, False, True]
    assert ended.rows[2]["ratio"] > 1.3
