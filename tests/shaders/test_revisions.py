"""Revisions of a shader tree: which they are, in which order, and as what they compile."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from vkbench.errors import UsageError, VkbenchError
from vkbench.process.git import Revision, checked_out, revisions
from vkbench_shaders.bundle import packaged
from vkbench_shaders.catalogue import problem
from vkbench_shaders.compile.build import units_for
from vkbench_shaders.compile.revisions import build_revision
from vkbench_shaders.compile.tree import TREE, source_of, sources_of

POSED = problem("copy/f32/n64")


class Repository:
    """A git repository in the making."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *words: str) -> str:
        someone = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        command = ["git", "-C", str(self.folder), *someone, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, subject: str, **files: str) -> str:
        for name, text in files.items():
            path = self.folder / f"{name.replace('__', '/')}.slang"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "--quiet", "--allow-empty", "-m", subject)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def subjects(found: list[Revision]) -> list[str]:
    return [revision.subject for revision in found]


def test_they_are_those_that_change_the_folder_in_order(repository: Repository) -> None:
    repository.commit("before", slang__a="1")
    good = repository.commit("the good one", other="1")
    repository.commit("two", slang__a="2")
    repository.commit("elsewhere", other="2")
    repository.git("checkout", "--quiet", "-b", "side")
    repository.commit("on the side", slang__b="3")
    repository.git("checkout", "--quiet", "main")
    repository.commit("four", slang__a="4")
    repository.git("merge", "--quiet", "--no-ff", "-m", "the merge", "side")
    repository.commit("five", slang__a="5")
    found = revisions(repository.folder, good, "HEAD", "slang")
    assert subjects(found) == ["the good one", "two", "four", "the merge", "five"]
    assert found[0].label == f"{good[:10]} the good one"
    assert revisions(repository.folder, "HEAD", good, "slang") == found[::-1]


def test_a_revision_is_as_it_was_and_the_repository_stays_as_it_is(repository: Repository) -> None:
    repository.commit("one", slang__a="1")
    repository.commit("two", slang__a="2")
    (repository.folder / "slang/a.slang").write_text("edited")
    first = revisions(repository.folder, "HEAD~1", "HEAD", "slang")[0]
    with checked_out(repository.folder, first, "slang") as tree:
        assert [path.name for path in tree.iterdir()] == ["a.slang"]
        assert (tree / "a.slang").read_text() == "1"
    assert not tree.exists()
    assert repository.git("status", "--short") == "M slang/a.slang"


def test_a_revision_with_no_folders_is_compiled_for_one_case(repository: Repository) -> None:
    sources = {path.stem: path for path in sources_of(source_of("copy", TREE), TREE)}
    flat = {name: path.read_text().replace("lib.", "") for name, path in sources.items()}
    repository.commit("good", **{f"slang__{name}": text for name, text in flat.items()})
    repository.commit("broken", slang__copy="nonsense")
    good, broken = revisions(repository.folder, "HEAD~1", "HEAD", "slang")
    bundle = build_revision(repository.folder, good, "slang", POSED)
    assert sorted(bundle.entries) == sorted(unit.key for unit in units_for(POSED))
    assert bundle.name == good.label
    assert bundle.code("copy/copy") == packaged().code("copy/copy")
    with pytest.raises(VkbenchError, match="does not compile"):
        build_revision(repository.folder, broken, "slang", POSED)
    with pytest.raises(UsageError, match="git in"):
        build_revision(repository.folder, good, "elsewhere", POSED)


@pytest.mark.parametrize(
    ("good", "bad", "why"),
    [
        ("HEAD", "side", "is no ancestor of"),
        ("HEAD~1", "nothing", "there is no revision 'nothing' in"),
        ("--output=x", "HEAD", "is no revision"),
    ],
)
def test_what_is_no_range(repository: Repository, good: str, bad: str, why: str) -> None:
    repository.commit("one", slang__a="1")
    repository.git("checkout", "--quiet", "-b", "side")
    repository.commit("on the side", slang__b="3")
    repository.git("checkout", "--quiet", "main")
    repository.commit("two", slang__a="2")
    with pytest.raises(UsageError, match=why):
        revisions(repository.folder, good, bad, "slang")


def test_no_repository(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="git in"):
        revisions(tmp_path, "a", "b", "slang")
