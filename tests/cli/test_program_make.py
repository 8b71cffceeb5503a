"""`vkbench program build make` and `prune`, as a user types them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from planted_git import git
from planted_sources import DECLARED, commit_text, commit_value, start_repository
from vkbench.process.plain_file import replace_file

Type = Callable[..., tuple[int, str, str]]
DAY = 86400.0


@pytest.fixture
def type_build_words(type_words: Type) -> Type:
    """Type a command of `vkbench program build`."""
    return partial(type_words, "program", "build")


@pytest.fixture
def declared(tmp_path: Path) -> str:
    path = tmp_path / "bench.toml"
    path.write_text(DECLARED)
    return str(path)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return start_repository(tmp_path / "repository")


def builds(type_build_words: Type) -> list[dict[str, Any]]:
    return list(json.loads(type_build_words("ls", "--json")[1])["rows"])


def test_a_revision_becomes_a_build_that_says_of_which_commit(
    type_build_words: Type, declared: str, repository: Path
) -> None:
    sha = commit_value(repository, "the first one", 1)
    git(repository, "tag", "v1")
    from_there = ("--repository", str(repository))
    code, out, err = type_build_words("make", declared, *from_there, "--revision", "v1")
    assert code == 0, err
    assert f"building v1 {sha[:10]} the first one, with" in err
    assert err.endswith(f"v1: bench of v1 {sha[:10]} the first one\n")
    [row] = builds(type_build_words)
    assert (row["sha"], row["name"]) == (out.strip(), "v1")
    assert row["commit"] == [f"{sha[:10]} the first one"]
    (repository / "bench.c").write_text("changed")
    code, again, err = type_build_words("make", "bench", *from_there)
    assert (code, again) == (0, out)
    assert "building" not in err
    assert "has changes that are in no revision: they are not built" in err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("bench",), "unknown program 'bench'"),
        (("{declared}", "--repository", "{tmp}"), "git in {tmp}: fatal: not a git repository"),
        (("{declared}", "--repository", "{tmp}/no"), "git in {tmp}/no: fatal: cannot change to"),
        (
            ("{declared}", *("--repository", "{repository}", "--revision", "v9")),
            "there is no revision 'v9' in ",
        ),
        (("{declared}", *("--repository", "{repository}", "--revision", "-x")), "'-x' is no rev"),
        (("{tmp}/no.toml",), "cannot read {tmp}/no.toml"),
    ],
)
def test_what_cannot_be_made_is_one_line(
    type_build_words: Type,
    declared: str,
    repository: Path,
    tmp_path: Path,
    words: tuple[str, ...],
    complaint: str,
) -> None:
    commit_value(repository, "one", 1)
    (tmp_path / "empty").mkdir()
    names = {"declared": declared, "repository": repository, "tmp": tmp_path / "empty"}
    code, out, err = type_build_words("make", *(word.format(**names) for word in words))
    assert (code, out) == (2, "")
    assert err.startswith(f"vkbench: {complaint.format(**names)}")
    assert err.count("\n") == 1


def test_git_may_be_missing(
    type_build_words: Type, declared: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, err = type_build_words("make", declared)
    assert (code, err) == (2, "vkbench: revisions need git, which is not installed\n")


def test_a_command_that_fails_is_shown(
    type_build_words: Type, declared: str, repository: Path
) -> None:
    commit_text(repository, "broken", "nonsense")
    code, out, err = type_build_words("make", declared, "--repository", str(repository))
    assert (code, out) == (4, "")
    assert "broken does not build: the command ended with status 1 (log: " in err
    assert "error: " in err
    assert builds(type_build_words) == []


def test_nothing_is_kept_at_first(type_build_words: Type) -> None:
    code, out, err = type_build_words("ls")
    assert (code, out) == (0, "")
    assert "`vkbench program build add PROGRAM FOLDER --name NAME` keeps one" in err
    assert (
        "unknown build 'b1'; `vkbench program build ls` lists" in type_build_words("show", "b1")[2]
    )


def test_what_nothing_needs_goes(
    type_build_words: Type, declared: str, repository: Path, tmp_path: Path
) -> None:
    for value in (1, 2):
        commit_value(repository, f"number {value}", value)
        git(repository, "tag", f"v{value}")
        assert type_build_words("make", declared, "--repository", str(repository))[0] == 0
    old, _new = builds(type_build_words)
    assert "0 builds, 0.0 MB, removed" in type_build_words("prune", "--older-than", "30d")[1]
    make_older(tmp_path / "data" / "builds" / "builds" / f"{old['sha']}.json")
    _, out, err = type_build_words("prune", "--older-than", "30d", "--dry-run")
    assert out == f"1 build, {old['bytes'] / 1e6:,.1f} MB, would be removed\n"
    assert err == f"{old['sha'][:12]} v1 of bench\n"
    assert len(builds(type_build_words)) == 2
    assert type_build_words("prune", "--older-than", "30d")[1].endswith(" removed\n")
    assert [row["name"] for row in builds(type_build_words)] == ["v2"]
    assert "'30' is no age" in type_build_words("prune", "--older-than", "30")[2]


def make_older(manifest: Path) -> None:
    known = msgspec.json.decode(manifest.read_bytes())
    replace_file(manifest, msgspec.json.encode(known | {"added_at": time.time() - 60 * DAY}))
    os.utime(manifest)
