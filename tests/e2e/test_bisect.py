"""Bisecting git revisions of a real kernel on a real device, killed midway and gone on with."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planted_git import git
from vkbench_shaders.compile.tree import TREE, source_of, sources_of

CASE = "copy/f32/n262144"
COUNT, FIRST_BAD, BROKEN = 8, 6, 4
WORK = "    copy_wide(index * THREADS * VEC4S + thread);\n"
# a bound that the compiler cannot know: what is done again is not dropped
MORE_WORK = f"    for (uint done = 0; done < 4 + min(push.odd_half, 0); done++)\n    {WORK}"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Revisions of copy: each has other code, one does not compile, and from one on it is slow."""
    folder = tmp_path / "repository"
    for source in sources_of(source_of("copy", TREE), TREE):
        target = folder / "slang" / source.relative_to(TREE)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    git(folder, "init", "--quiet")
    git(folder, "add", "-A")
    path = source_of("copy", folder / "slang")
    plain = path.read_text()
    assert WORK in plain
    for number in range(COUNT):
        path.write_text(revision(plain, number))
        git(folder, "commit", "--quiet", "--all", "-m", f"change {number}")
        git(folder, "tag", f"change-{number}")
    return folder


def revision(plain: str, number: int) -> str:
    mark = f"{WORK}    if (push.groups_x == 0xffff0000 + {number}) y[0] = {number};\n"
    made = plain.replace(WORK, mark)
    if number == BROKEN:
        return made.replace("y[0]", "nothing[0]")
    return made.replace(WORK, MORE_WORK) if number >= FIRST_BAD else made


@pytest.mark.timeout(400)  # a minute on two busy cores: some 30 pairs, a process each
def test_the_planted_revision_is_found_after_a_kill(
    vkbench: Callable[..., Any], begin: Callable[..., Any], repository: Path, database: Path
) -> None:
    where = ("--repository", str(repository), "--folder", "slang")
    words = ("--case", CASE, "--revisions", "change-0..HEAD", "--seconds", "0.05")
    with begin("bisect", *words, *where) as child:
        for line in child.stderr:
            if re.search(rf"change {COUNT - 1}: bad", line):
                break
        assert child.poll() is None
        child.kill()
    (killed,) = vkbench("bisect", "ls", "--json").rows
    assert (killed["state"], killed["bundles"], killed["first_bad"]) == ("running", COUNT, None)

    ended = vkbench("bisect", "--resume", str(killed["id"]), "--json")
    assert ended.code == 0, ended.err
    rows = ended.rows
    (first_bad,) = [row for row in rows if row["is_first_bad"]]
    assert first_bad["label"].endswith(f"change {FIRST_BAD}")
    assert f"change {FIRST_BAD} is the first bad one: ratio" in ended.err, ended.err
    assert (first_bad["verdict"], first_bad["ratio"] > 1.3) == ("bad", True)
    assert first_bad["low"] > 1
    assert first_bad["p"] <= 0.001
    assert "does not compile" in rows[BROKEN]["note"]
    assert rows[FIRST_BAD - 1]["verdict"] == "good"
    judged = [row for row in rows if row["ratio"]]
    assert len(judged) <= 5
    assert {row["verdict"] for row in judged} == {"good", "bad"}
    assert all((row["position"] >= FIRST_BAD) == (row["verdict"] == "bad") for row in judged)
