"""A kernel of one's own in several steps, judged and timed as one."""

from __future__ import annotations

from pathlib import Path

import pytest

from planted_git import commit, git
from planted_steps import CASE, LATER, SLOW, TIMED, write_counted, write_sources, write_steps

from .conftest import Vkbench

pytestmark = pytest.mark.usefixtures("glslang")
TURNS = "part < SPLIT"


@pytest.mark.timeout(300)
def test_steps_are_judged_and_timed_as_one(vkbench: Vkbench, tmp_path: Path) -> None:
    path = write_steps(tmp_path / "lab")
    words = ("run", "--kernel-file", str(path), "--json", "--all")
    ended = vkbench(*words, "--seconds", "0.05", "--case", TIMED)
    assert ended.code == 0, ended.err
    [row] = [row for row in ended.rows if row["hot_seconds"]]
    assert row["flops_per_second"] == pytest.approx(2 * 512 * 512 / row["hot_seconds"])
    (*_, launched) = vkbench("results", "--case", TIMED, "--json").rows
    assert launched["variant"] == "split"
    for turns, remark in (
        ("part < SPLIT - 1", "NMSE of y is"),
        ("part < SPLIT + 1", "33 elements of y are NaN or Inf"),  # it reads past its scratch
    ):
        write_sources(path.parent, {TURNS: turns})
        ended = vkbench(*words, "--mode", "correctness", "--case", CASE)
        assert ended.code == 3
        assert remark in ended.rows[0]["remark"]
    write_sources(path.parent)
    source = path.parent / "split.comp"
    source.write_text(source.read_text().replace("row] = sum", "row + 40] = sum"))
    ended = vkbench(*words, "--mode", "correctness", "--case", CASE)
    assert ended.code == 3
    assert "guard bytes of scratch partials were overwritten" in ended.rows[0]["remark"]


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
