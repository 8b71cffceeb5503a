"""Builds made of revisions: once each, in a clean checkout, and how a command may fail."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from planted_git import git
from planted_sources import PROGRAM, RECIPE, commit_text, commit_value, start_repository
from vkbench.errors import UsageError, VkbenchError
from vkbench.process.git import find_revision
from vkbench.programs import making
from vkbench.programs.making import Maker, NotBuilt, ProgramProduct
from vkbench.programs.program import GGML_VULKAN, Program, Recipe
from vkbench.programs.store import BuildStore

Make = Callable[..., Maker]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return start_repository(tmp_path / "repository")


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def maker(tmp_path: Path, repository: Path, told: list[str]) -> Maker:
    return Maker(
        product=ProgramProduct(program=PROGRAM, store=BuildStore(tmp_path / "store")),
        repository=repository,
        logs=tmp_path / "logs",
        tell=told.append,
    )


def with_command(maker: Maker, command: str, folder: str = "out") -> Maker:
    recipe = Recipe(command=command, folder=folder)
    return of_program(maker, replace(PROGRAM, build=recipe))


def of_program(maker: Maker, program: Program) -> Maker:
    return replace(maker, product=ProgramProduct(program=program, store=store_of(maker)))


def store_of(maker: Maker) -> BuildStore:
    assert isinstance(maker.product, ProgramProduct)
    return maker.product.store


def test_a_build_knows_its_commit_and_is_made_once(
    maker: Maker, repository: Path, tmp_path: Path
) -> None:
    sha = commit_value(repository, "the first one", 3)
    count = tmp_path / "count"
    counted = with_command(maker, f"{RECIPE.command}; echo >> {count}")
    head = find_revision(repository, "HEAD")
    build = counted.make(head)
    assert build.name == sha[:10]
    [commit] = build.commits
    assert (commit.sha, commit.subject) == (sha, "the first one")
    assert abs(commit.committed_at - time.time()) < 1000
    laid_out = store_of(counted).lay_out(build)
    assert subprocess.run([laid_out / "bench"], check=False).returncode == 3
    assert counted.make(head) == build
    assert count.read_text() == "\n"
    assert counted.make(head, "mine").name == "mine"
    assert count.read_text() == "\n"
    assert store_of(counted).find("mine") == store_of(counted).find(sha[:12])
    other = with_command(maker, f"{RECIPE.command}; echo >> {count}; true")
    assert other.make(head).sha == build.sha  # another recipe is another way to the same files
    assert count.read_text() == "\n\n"
    assert list((tmp_path / "logs").iterdir()) == []


def test_revisions_of_the_same_files_are_one_build(maker: Maker, repository: Path) -> None:
    one = commit_value(repository, "one", 1)
    git(repository, "tag", "b1")
    two = commit_value(repository, "two", 1)
    git(repository, "tag", "b2")
    builds = [maker.make(find_revision(repository, sha)) for sha in (one, two)]
    assert builds[0].sha == builds[1].sha
    assert builds[1].name == "b1"
    assert [commit.name for commit in builds[1].commits] == ["b1", "b2"]
    assert store_of(maker).find("b2") == builds[1]


def test_neither_the_work_tree_nor_the_repository_changes(maker: Maker, repository: Path) -> None:
    commit_value(repository, "one", 1)
    (repository / ".git" / "hooks" / "post-checkout").write_text("#!/bin/sh\nexit 1\n")
    (repository / ".git" / "hooks" / "post-checkout").chmod(0o755)
    (repository / "bench.c").write_text("not C")
    (repository / "untracked").write_text("")
    before = sorted(path for path in repository.rglob("*") if "worktrees" not in path.parts)
    clean = with_command(maker, f"test ! -e untracked; git rev-parse HEAD; {RECIPE.command}")
    clean.make(find_revision(repository, "main"))
    after = sorted(path for path in repository.rglob("*") if "worktrees" not in path.parts)
    assert before == after
    assert (repository / "bench.c").read_text() == "not C"
    assert list((repository / ".git").glob("worktrees/*")) == []


def test_a_command_that_fails_shows_its_last_lines_and_its_log(
    maker: Maker, repository: Path
) -> None:
    commit_text(repository, "broken", "int main(void) { return nothing; }")
    with pytest.raises(NotBuilt) as raised:
        maker.make(find_revision(repository, "HEAD"))
    first, *rest = str(raised.value).splitlines()
    assert " broken does not build: the command ended with status 1 (log: " in first
    assert "nothing" in "\n".join(rest)
    log = Path(first.partition("(log: ")[2].rstrip(")"))
    assert "error: " in log.read_text()
    assert store_of(maker).list_builds() == []
    assert list((repository / ".git").glob("worktrees/*")) == []


@pytest.mark.parametrize(
    ("command", "folder", "why"),
    [
        ("false; true", "out", "ended with status 1"),
        ("kill -9 $$", "out", "ended by SIGKILL"),
        ("true", "out", "left no folder out"),
        ("mkdir out; touch out/other", "out", "there is no bench in it"),
        ("ln -s /usr/bin out", "out", "leads out of the checkout"),
        ("mkdir out; ln -s /bin/sh out/bench", "out", "links to /.*, out of"),
        ("cat > typed; test -s typed", "out", "ended with status 1"),
        ('test -z "$VKBENCH_REDIS"; exit 7', "out", "ended with status 7"),
    ],
)
def test_what_leaves_no_build_is_told(
    maker: Maker,
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    folder: str,
    why: str,
) -> None:
    monkeypatch.setenv("VKBENCH_REDIS", "redis://:secret@host")
    commit_value(repository, "one", 1)
    with pytest.raises(NotBuilt, match=why):
        with_command(maker, command, folder).make(find_revision(repository, "HEAD"))
    assert store_of(maker).list_builds() == []


def test_a_command_that_hangs_is_ended_with_all_that_it_started(
    maker: Maker, repository: Path, tmp_path: Path
) -> None:
    commit_value(repository, "one", 1)
    pid = tmp_path / "pid"
    hanging = with_command(maker, f"sleep 1000 & echo $! > {pid}; echo waiting; wait")
    with pytest.raises(NotBuilt, match=r"took over 1 second .*\n  waiting"):
        replace(hanging, limit_seconds=1.0).make(find_revision(repository, "HEAD"))
    assert has_ended(int(pid.read_text()))
    behind = with_command(maker, f"sleep 1000 & echo $! > {pid}; {RECIPE.command}")
    behind.make(find_revision(repository, "HEAD"))
    assert has_ended(int(pid.read_text()))


def has_ended(pid: int) -> bool:
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_a_command_that_prints_without_end_is_ended(
    maker: Maker, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "MOST_LOG_BYTES", 1 << 20)
    commit_value(repository, "one", 1)
    with pytest.raises(NotBuilt, match="printed over 1 MiB"):
        with_command(maker, "yes").make(find_revision(repository, "HEAD"))


def test_a_full_disk_is_no_fault_of_the_revision(
    maker: Maker, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_value(repository, "one", 1)
    monkeypatch.setattr(making, "_FULL_BYTES", 1 << 60)
    with pytest.raises(VkbenchError, match="is full, so that nothing can be built") as raised:
        with_command(maker, "false").make(find_revision(repository, "HEAD"))
    assert not isinstance(raised.value, NotBuilt)


def test_submodules_are_told(maker: Maker, repository: Path, told: list[str]) -> None:
    commit_value(repository, "one", 1)
    link = f"160000,{find_revision(repository, 'HEAD').sha},parts/kompute"
    git(repository, "update-index", "--add", "--cacheinfo", link)
    git(repository, "commit", "--quiet", "-m", "with a submodule")
    maker.make(find_revision(repository, "HEAD"))
    [line] = told
    assert "has 1 submodule, empty in its checkout: parts/kompute;" in line


def test_ccache_is_told_to_cmake_where_it_is_installed(
    maker: Maker, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_value(repository, "one", 1)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ccache").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "ccache").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    checks = 'test "$CMAKE_CXX_COMPILER_LAUNCHER" = ccache; test "$CCACHE_BASEDIR" = "$PWD"; '
    assert with_command(maker, checks + RECIPE.command).make(find_revision(repository, "HEAD"))


def test_what_is_no_checkout_of_llama_cpp_is_told(maker: Maker, repository: Path) -> None:
    commit_value(repository, "one", 1)
    with pytest.raises(NotBuilt, match=r"\n  this is no checkout of llama.cpp or ggml"):
        of_program(maker, GGML_VULKAN).make(find_revision(repository, "HEAD"))


def test_a_program_may_not_say_how_it_is_built(maker: Maker, repository: Path) -> None:
    commit_value(repository, "one", 1)
    silent = of_program(maker, replace(PROGRAM, build=None))
    with pytest.raises(UsageError, match="bench does not say how it is built"):
        silent.make(find_revision(repository, "HEAD"))
