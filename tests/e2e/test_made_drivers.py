"""Drivers made of revisions on one machine: by `driver make`, and as a bisection needs them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planted_driver_tree import BROKEN, plant_driver_tree
from planted_drivers import LAVAPIPE

SUM = "add/f32/b1_c1_h8_w64"
CHOSEN = ("--case", SUM, "--device", "llvmpipe", "--seconds", "0.02")
Vkbench = Callable[..., Any]
Need = Callable[[str, str], None]


@pytest.fixture(autouse=True)
def lavapipe(need: Need) -> None:
    """The system's CPU driver, which those of the repository wrap."""
    if not LAVAPIPE.exists():
        need("gpu", "lavapipe is not installed (apt install mesa-vulkan-drivers)")


def declared(tmp_path: Path) -> str:
    return str(tmp_path / "wrapped.toml")


def test_a_revision_becomes_a_driver_that_runs(vkbench: Vkbench, tmp_path: Path) -> None:
    repository = plant_driver_tree(tmp_path, ["none", BROKEN, "none"])
    of_tree = ("--repository", str(repository))
    made = vkbench("driver", "make", declared(tmp_path), *of_tree, "--revision", "r0")
    assert made.code == 0, made.err
    assert made.err.startswith("building r0 ")
    assert made.err.splitlines()[-1].startswith("wrapped-r0: wrapped of r0 ")
    same = vkbench("driver", "make", "wrapped", *of_tree, "--revision", "r2")
    assert (same.out, same.code) == (made.out, 0)  # only a comment changed
    named = vkbench("driver", "make", "wrapped", *of_tree, "--name", "mine")
    assert (named.out, "building" in named.err) == (made.out, False)
    [row] = vkbench("driver", "ls", "--json").rows
    assert (row["name"], row["sha"]) == ("mine", made.out.strip())
    assert [commit.split(" ", 1)[1] for commit in row["commit"]] == ["change 0", "change 2"]
    ran = vkbench("run", "--driver", "mine", *CHOSEN, "--mode", "correctness")
    assert ran.code == 0, ran.err
    broken = vkbench("driver", "make", "wrapped", *of_tree, "--revision", "r1")
    assert (broken.code, broken.out) == (4, "")
    assert " change 1 does not build: the command ended with status 1 (log: " in broken.err


@pytest.mark.timeout(240)
def test_the_slow_commit_of_a_driver_is_found(vkbench: Vkbench, tmp_path: Path) -> None:
    faults = ["none", "none", BROKEN, "slow", "slow", "slow"]
    repository = plant_driver_tree(tmp_path, faults)
    found = vkbench(
        *("bisect", "--driver-file", declared(tmp_path), "--repository", str(repository)),
        *("--revisions", "r0..r5", *CHOSEN, "--json"),
    )
    assert found.code == 0, found.err
    rows = found.rows
    assert [row["is_first_bad"] for row in rows].index(True) == 3
    assert [row["verdict"] for row in rows] == ["taken as good", "good", "", "bad", "", "bad"]
    assert rows[1]["note"] == f"the same files as {rows[0]['label']}"
    assert rows[2]["note"].startswith("does not build: the command ended with status 1")
    assert f"{rows[2]['label']} is passed over: it does not build" in found.err
    assert rows[3]["note"] == f"the same files as {rows[5]['label']}"
    assert f"{rows[3]['label']} is bad: ratio " in found.err
    assert not vkbench("results", "--json").rows  # pairs are no results of their own


@pytest.mark.timeout(240)
def test_the_commit_that_mended_a_driver_is_found(vkbench: Vkbench, tmp_path: Path) -> None:
    repository = plant_driver_tree(tmp_path, ["wrong", "wrong", "none", "none"])
    words = ("bisect", "--driver-file", declared(tmp_path), "--repository", str(repository))
    found = vkbench(*words, "--revisions", "r3..r0", *CHOSEN, "--json")
    assert found.code == 0, found.err
    assert "change 2 is the first good one: " in found.err
    assert [row["verdict"] for row in found.rows] == ["taken as good", "good", "wrong", "wrong"]
    log = plant_logging_git(tmp_path / "bin")
    path = os.pathsep.join((str(tmp_path / "bin"), os.environ["PATH"]))
    again = vkbench(*words, "--revisions", "r2..r3", *CHOSEN, "--json", PATH=path)
    assert (again.code, again.out) == (2, "")
    assert "r2 and r3 have the same files in their builds: it is not wrapped that" in again.err
    listings = [line for line in log.read_text().splitlines() if "--first-parent" in line]
    assert len(listings) == 1, listings


def plant_logging_git(folder: Path) -> Path:
    """A git that notes what it is asked; the file with its notes, a command a line."""
    folder.mkdir()
    log, git = folder / "log", folder / "git"
    git.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {shutil.which("git")} "$@"\n')
    git.chmod(0o755)
    return log


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("driver", "make", "x"), "no driver's file is known as 'x': give the path of one"),
        (("driver", "make", "gone.toml"), "cannot read gone.toml: No such file"),
        (("bisect", "--case", SUM, "--driver-file", "x"), "nothing to search: give --bundles"),
        (
            ("bisect", "--case", SUM, "--driver-file", "x", "--drivers", "a,b"),
            "--drivers run the packaged kernels, and begin with the good one",
        ),
        (
            (
                "bisect",
                "--case",
                SUM,
                "--driver-file",
                "x",
                "--program",
                "y",
                "--revisions",
                "a..b",
            ),
            "drivers of --driver-file run the packaged kernels: leave out --bundles",
        ),
        (
            ("bisect", "--case", "ad/f32/n1", "--driver-file", "x", "--revisions", "a..b"),
            "unknown kernel 'ad'",
        ),
    ],
)
def test_what_makes_no_sense_is_one_line(
    asked: Vkbench, words: tuple[str, ...], complaint: str
) -> None:
    ended = asked(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"vkbench: {complaint}")
    assert ended.err.count("\n") == 1
