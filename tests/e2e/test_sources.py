"""A kernel of one's own whose declaration and sources lie in two places."""

from __future__ import annotations

from pathlib import Path

import pytest

from planted_git import commit, git
from planted_tree import CASE, write_declaration, write_tree

from .conftest import Vkbench

pytestmark = pytest.mark.usefixtures("glslang")
RIGHT = "TWICE(x[i]) * p.factor"


def test_sources_are_judged_where_they_are(vkbench: Vkbench, tmp_path: Path) -> None:
    path, tree = write_declaration(tmp_path / "lab"), write_tree(tmp_path / "tree")
    words = ("run", "--kernel-file", str(path), "--mode", "correctness", "--json")
    ended = vkbench(*words, "--sources", f"{tmp_path}:tree")
    assert ended.code == 0, ended.err
    assert [row["verdict"] for row in ended.rows] == ["passed"]
    write_tree(tree, {RIGHT: "x[i]", "i < p.count": "i < p.count + 9"})
    ended = vkbench(*words, "--sources", str(tree))
    assert ended.code == 3
    assert "guard bytes of y were overwritten" in ended.rows[0]["remark"]


def test_sources_that_are_nowhere_are_said(asked: Vkbench, tmp_path: Path) -> None:
    path = str(write_declaration(tmp_path / "lab"))
    ended = asked("kernel", "check", path, "--sources", f"{tmp_path}:tree")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "tree is no folder" in ended.err
    ended = asked("run", "--sources", str(tmp_path))
    assert ended.err == "vkbench: --sources are those of a --kernel-file FILE\n"


@pytest.mark.timeout(300)
def test_the_revision_that_made_a_foreign_kernel_wrong_is_found(
    vkbench: Vkbench, tmp_path: Path
) -> None:
    """The declaration is in none of the revisions: the second changes another file."""
    path, tree = write_declaration(tmp_path / "lab"), write_tree(tmp_path / "project" / "tree")
    git(tree, "init", "--quiet", "..")
    commit(tree, "plain")
    (tree / "other.comp").write_text("#version 450")
    commit(tree, "other")
    write_tree(tree, {RIGHT: "twice(x[i])"})
    commit(tree, "broken")
    write_tree(tree, {RIGHT: "x[i] * 2"})
    commit(tree, "wrong")
    where = ("--kernel-file", str(path), "--sources", f"{tree.parent}:tree", "--case", CASE)
    words = ("--revisions", "HEAD~3..HEAD", "--seconds", "0.02", "--json")
    ended = vkbench("bisect", *where, *words)
    assert ended.code == 0, ended.err
    assert [row["label"].split()[-1] for row in ended.rows] == ["plain", "broken", "wrong"]
    assert "scale.comp:11: 'twice' : no matching overloaded function" in ended.rows[1]["note"]
    assert [row["is_first_bad"] for row in ended.rows] == [False, False, True]
    write_tree(tree)
    commit(tree, "mended")
    (tree / "another.comp").write_text("#version 450")
    commit(tree, "later")
    ended = vkbench("bisect", *where, "--revisions", "HEAD..HEAD~2", *words[2:])
    assert ended.code == 0, ended.err
    assert [row["label"].split()[-1] for row in ended.rows] == ["mended", "wrong"]
    assert "mended is the first good one: " in ended.err
    assert not any(row["is_first_bad"] for row in ended.rows)
    ended = vkbench("bisect", *where, "--revisions", "HEAD~5..HEAD~3")
    assert ended.code == 2
    assert "broken, cannot be run" in ended.err
    assert "scale.comp:11" in ended.err
