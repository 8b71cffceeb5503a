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
from planted_sources import DECLARED as DECLARED_BENCH
from planted_sources import commit_text, start_repository
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

# Answers each case with the times for which it asked to sleep, on however busy a machine.
BENCH = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
const char *volatile mark = "MARK";
int main(void) {
  static char line[65536];
  while (fgets(line, sizeof line, stdin)) {
    BEFORE
    printf("{\\"verdict\\": \\"VERDICT\\", \\"samples\\": [");
    for (int done = 0; done < 15; done++) {
      int micros = MICROS + done;
      usleep(micros);
      printf("%s%.9f", done ? ", " : "", micros * 1e-6);
    }
    printf("]}\\n");
    fflush(stdout);
  }
  return 0;
}
"""

Bisect = Callable[..., Any]
Vkbench = Callable[..., Any]
Kind = tuple[str, int, str]


@pytest.fixture
def bisect_ggml(new_lavapipe: Path, ggml_folder: Path, tmp_path: Path) -> Bisect:
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


@pytest.mark.timeout(240)
def test_a_build_of_ggml_that_is_wrong_is_found(bisect_ggml: Bisect) -> None:
    found = bisect_ggml([("shipped", "a"), ("wrong", "b"), ("wrong", "c")])
    assert found.returncode == 0, found.stderr
    rows = json.loads(found.stdout)["rows"]
    assert [row["verdict"] for row in rows] == ["taken as good", "wrong", "wrong"]
    assert [row["is_first_bad"] for row in rows] == [False, True, False]


GOOD, SLOW = ("passed", 1000, ""), ("passed", 2000, "")  # verdict, microseconds, what comes before
WRONG, CRASH = ("wrong", 1000, ""), ("passed", 1000, "abort();")
BROKEN = ("passed", 1000, "nonsense;")


@pytest.fixture
def bisect(vkbench: Vkbench, tmp_path: Path) -> Bisect:
    """Search revisions of a program in C, each a kind and a mark, for its own case."""

    def run(revisions: Sequence[tuple[Kind, str]]) -> Any:
        repository = start_repository(tmp_path / "repository")
        for place, ((verdict, microseconds, before), mark) in enumerate(revisions):
            text = BENCH.replace("VERDICT", verdict).replace("MICROS", str(microseconds))
            commit_text(
                repository,
                f"change {place}",
                text.replace("BEFORE", before).replace("MARK", mark),
            )
            git(repository, "tag", f"r{place}")
        declared = tmp_path / "bench.toml"
        declared.write_text(DECLARED_BENCH + '[cases]\nnames = ["sleep"]\n')
        words = ["--case", "bench:sleep", "--program", str(declared), "--seconds", "0.1"]
        return vkbench(
            *("bisect", *words, "--repository", str(repository)),
            *("--revisions", f"r0..r{len(revisions) - 1}", "--json"),
        )

    return run


@pytest.mark.timeout(240)
def test_the_slow_commit_is_found_and_few_are_built(bisect: Bisect) -> None:
    found = bisect(
        [
            (GOOD, "a"),
            (GOOD, "b"),
            (GOOD, "c"),
            (GOOD, "a"),
            (BROKEN, "d"),
            (GOOD, "e"),
            (SLOW, "f"),
            (SLOW, "g"),
        ]
    )
    assert found.code == 0, found.err
    rows = found.rows
    verdicts = [row["verdict"] for row in rows]
    assert verdicts == ["taken as good", "", "", "good", "", "good", "bad", "bad"]
    assert [row["is_first_bad"] for row in rows].index(True) == 6
    assert rows[3]["note"] == f"the same files as {rows[0]['label']}"
    assert rows[4]["note"].startswith("does not build: the command ended with status 1")
    assert found.err.count("building ") == 6
    assert "6 of 8 revisions were built" in found.err
    assert f"{rows[4]['label']} is passed over: it does not build" in found.err
    assert f"{rows[6]['label']} is the first bad one: ratio " in found.err
    assert rows[6]["label"].startswith("r6 ")
    assert rows[6]["label"].endswith(" change 6")


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("kind", "verdict"), [(WRONG, "wrong"), (CRASH, "failed")])
def test_a_commit_that_is_wrong_or_crashes_is_found(
    bisect: Bisect, kind: Kind, verdict: str
) -> None:
    found = bisect([(GOOD, "a"), (GOOD, "b"), (kind, "c")])
    assert found.code == 0, found.err
    rows = found.rows
    assert [row["verdict"] for row in rows] == ["taken as good", "good", verdict]
    assert [row["is_first_bad"] for row in rows].index(True) == 2


def test_ends_that_do_not_build_or_are_equal_are_told(bisect: Bisect) -> None:
    found = bisect([(GOOD, "a"), (GOOD, "b"), (GOOD, "a")])
    assert (found.code, found.out) == (2, "")
    assert "r0 and r2 have the same files in their builds: it is not bench" in found.err


def test_an_end_that_does_not_build_is_told(bisect: Bisect) -> None:
    found = bisect([(GOOD, "a"), (GOOD, "b"), (BROKEN, "c")])
    assert (found.code, found.out) == (4, "")
    assert " change 2 does not build: the command ended with status 1 (log: " in found.err
