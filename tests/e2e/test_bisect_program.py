"""Bisections over revisions of a program: few of them are built, each when its turn comes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from planted_builds import add_planted
from planted_git import commit, git
from vkbench.programs.store import BuildStore

PRODUCT = "mul_mat_vec/q4_0/m64_n1_k1024"
CHOSEN = ("--case", PRODUCT, "--seconds", "0.1")
# A revision says which planted build it is, and what makes its files differ from those before.
DECLARED = """
name = "planted"
description = "builds of ggml, of which some have a fault"
adapter = "ggml"
needs = ["libggml-base.so*", "libggml-vulkan.so*"]
takes = ["libggml-cpu*.so*"]
[build]
command = "mkdir out; cp {planted}/$(cat fault)/*.so out; cp mark out/libggml-cpu-mark.so"
folder = "out"
"""

Bisect = Callable[..., Any]


@pytest.fixture
def bisect(new_lavapipe: Path, ggml_folder: Path, tmp_path: Path) -> Bisect:
    """Search revisions, each a (fault, mark), by the newer lavapipe: see test_builds.py."""
    planted = tmp_path / "planted"
    planted.mkdir()

    def plant(fault: str) -> None:
        if fault == "shipped":
            shutil.copytree(ggml_folder, planted / fault, symlinks=False)
        elif fault != "broken":
            add_planted(BuildStore(tmp_path / "apart"), ggml_folder, fault, planted / fault)

    def run(revisions: Sequence[tuple[str, str]]) -> Any:
        for fault in {fault for fault, _ in revisions}:
            plant(fault)
        repository = tmp_path / "repository"
        repository.mkdir()
        git(repository, "init", "--quiet", "--initial-branch=main")
        for place, (fault, mark) in enumerate(revisions):
            (repository / "fault").write_text(fault)
            (repository / "mark").write_text(mark)
            (repository / "NEWS").write_text(str(place))
            commit(repository, f"change {place}")
            git(repository, "tag", f"r{place}")
        declared = tmp_path / "planted.toml"
        declared.write_text(DECLARED.format(planted=planted))
        words = ["bisect", *CHOSEN, "--program", str(declared), "--repository", str(repository)]
        words += ["--revisions", f"r0..r{len(revisions) - 1}", "--json"]
        command = [str(new_lavapipe / "vkbench"), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)

    return run


@pytest.mark.timeout(300)
def test_the_slow_commit_is_found_and_few_are_built(bisect: Bisect) -> None:
    revisions = [
        ("shipped", "a"),
        ("shipped", "b"),
        ("shipped", "c"),
        ("shipped", "a"),
        ("broken", "d"),
        ("shipped", "e"),
        ("slow", "f"),
        ("slow", "g"),
    ]
    found = bisect(revisions)
    assert found.returncode == 0, found.stderr
    rows = json.loads(found.stdout)["rows"]
    assert [row["verdict"] for row in rows] == [
        "taken as good",
        "",
        "",
        "good",
        "",
        "good",
        "bad",
        "bad",
    ]
    assert [row["is_first_bad"] for row in rows].index(True) == 6
    assert rows[3]["note"] == f"the same files as {rows[0]['label']}"
    assert rows[4]["note"].startswith("does not build: the command ended with status 1")
    assert found.stderr.count("building ") == 6
    assert "6 of 8 revisions were built" in found.stderr
    assert f"{rows[4]['label']} is passed over: it does not build" in found.stderr
    assert f"{rows[6]['label']} is the first bad one: ratio " in found.stderr
    assert rows[6]["label"].startswith("r6 ")
    assert rows[6]["label"].endswith(" change 6")


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("fault", "verdict"), [("wrong", "wrong"), ("crash", "failed")])
def test_a_commit_that_is_wrong_or_crashes_is_found(
    bisect: Bisect, fault: str, verdict: str
) -> None:
    found = bisect([("shipped", "a"), (fault, "b"), (fault, "c")])
    assert found.returncode == 0, found.stderr
    rows = json.loads(found.stdout)["rows"]
    assert [row["verdict"] for row in rows] == ["taken as good", verdict, verdict]
    assert [row["is_first_bad"] for row in rows] == [False, True, False]


def test_ends_that_do_not_build_or_are_equal_are_told(bisect: Bisect) -> None:
    found = bisect([("shipped", "a"), ("shipped", "b"), ("shipped", "a")])
    assert (found.returncode, found.stdout) == (2, "")
    assert "r0 and r2 have the same files in their builds: it is not planted" in found.stderr


def test_an_end_that_does_not_build_is_told(bisect: Bisect) -> None:
    found = bisect([("shipped", "a"), ("shipped", "b"), ("broken", "c")])
    assert (found.returncode, found.stdout) == (4, "")
    assert " change 2 does not build: the command ended with status 1 (log: " in found.stderr
