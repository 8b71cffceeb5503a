"""Reads git repositories of users: revisions in order, and their files, checked out elsewhere.

No function changes a repository's work tree, its index or its branches, or runs its hooks.
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from vkbench.errors import UsageError

_LABEL = 72  # characters
_TITLE = 200
# Where git hooks run, these name the hook's repository, whatever `-C` says.
_OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")
_OPTIONS = ("-c", "log.showSignature=false", "-c", f"core.hooksPath={os.devnull}")


@dataclass(frozen=True, kw_only=True)
class Revision:
    """One commit of a repository."""

    sha: str
    subject: str
    committed_at: float = 0.0
    tag: str = ""  # one of those that it has

    @property
    def name(self) -> str:
        """What people call it: its tag, or the first digits of its hash."""
        return self.tag or self.sha[:10]

    @property
    def label(self) -> str:
        """Its tag, the first digits of its hash, and its subject."""
        return f"{self.tag} {self.sha[:10]} {self.subject}"[:_LABEL].strip()

    @property
    def title(self) -> str:
        """The first digits of its hash, and its subject, as results keep it."""
        from vkbench.bounds import UNSHOWN  # loads what most commands do without

        return UNSHOWN.sub("?", f"{self.sha[:10]} {self.subject}"[:_TITLE])


def find_revision(repository: Path, name: str) -> Revision:
    """The commit that a name means; UsageError where there is none."""
    if name.startswith("-"):
        raise UsageError(f"'{name}' is no revision")
    if run_git(repository, "rev-parse", "--quiet", "--verify", f"{name}^{{commit}}").returncode:
        read_git(repository, "rev-parse", "--git-dir")
        raise UsageError(f"there is no revision '{name}' in {repository}")
    [revision] = _list_log(repository, "-1", f"{name}^{{commit}}")
    has_tag = run_git(repository, "rev-parse", "--quiet", "--verify", f"refs/tags/{name}")
    return revision if has_tag.returncode else replace(revision, tag=name)


def revisions(repository: Path, good: str, bad: str, folder: str = ".") -> list[Revision]:
    """The good revision, then those up to the bad one that change the folder, oldest first.

    Follows first parents, so that each revision differs from the one before; a merge counts as
    one change. Where the good one is the newer, they are the same, newest first.
    """
    first, last = find_revision(repository, good), find_revision(repository, bad)
    if is_newer(repository, good, bad):
        return revisions(repository, bad, good, folder)[::-1]
    if not _is_ancestor(repository, first, last):
        raise UsageError(f"{good} is no ancestor of {bad} in {repository}")
    between = f"{first.sha}..{last.sha}"
    return [first, *_list_log(repository, "--reverse", "--first-parent", between, "--", folder)]


def is_newer(repository: Path, name: str, other: str) -> bool:
    """Whether a revision comes after another one, which is among its ancestors."""
    one, another = find_revision(repository, name), find_revision(repository, other)
    return one.sha != another.sha and _is_ancestor(repository, another, one)


def _is_ancestor(repository: Path, one: Revision, other: Revision) -> bool:
    done = run_git(repository, "merge-base", "--is-ancestor", one.sha, other.sha)
    return not done.returncode


def list_submodules(repository: Path, revision: Revision) -> list[str]:
    """The paths of a revision's submodules."""
    listed = read_git(repository, "ls-tree", "-r", "-z", revision.sha).decode(errors="replace")
    entries = (entry.partition("\t") for entry in listed.split("\0"))
    return [path for mode, _, path in entries if mode.startswith("160000 ")]


def is_changed(repository: Path) -> bool:
    """Whether a repository's work tree has changes that are in no revision yet."""
    done = run_git(repository, "status", "--porcelain", "--untracked-files=no")
    return bool(done.stdout) and not done.returncode


def describe_folder(folder: Path) -> str:
    """The revision that a folder is of, and whether it has changes; "" where git keeps none of it.

    So it is where git is not installed, or does not trust the folder.
    """
    try:
        listed = run_git(folder, "ls-files", "--", ".")
        if listed.returncode or not listed.stdout:
            return ""
        revision = find_revision(folder, "HEAD")
        changes = read_git(folder, "status", "--porcelain", "--", ".")
    except UsageError:
        return ""
    return revision.title + (", with changes" if changes else "")


def _list_log(repository: Path, *words: str) -> list[Revision]:
    log = read_git(repository, "log", "--format=%H%x00%ct%x00%D%x00%s", *words)
    parts = (line.split("\0") for line in log.decode(errors="replace").split("\n") if line)
    return [
        Revision(sha=sha, committed_at=float(seconds), tag=_first_tag(refs), subject=subject)
        for sha, seconds, refs, subject in parts
    ]


def _first_tag(refs: str) -> str:
    tags = [ref.removeprefix("tag: ") for ref in refs.split(", ") if ref.startswith("tag: ")]
    return tags[0] if tags else ""


def has_file(repository: Path, revision: Revision, file: PurePosixPath) -> bool:
    """Whether a file, by its path from the repository's root, is in a revision."""
    return not run_git(repository, "cat-file", "-e", f"{revision.sha}:{file}").returncode


@contextmanager
def checked_out(repository: Path, revision: Revision, folder: str) -> Iterator[Path]:
    """Extracts a folder at a revision for the block; the working tree stays as it is."""
    place = "" if folder == "." else folder.strip("/")
    archive = read_git(repository, "archive", "--format=tar", f"{revision.sha}:{place}")
    with TemporaryDirectory(prefix="vkbench-") as scratch:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(scratch, filter="data")
        yield Path(scratch)


@contextmanager
def work_tree(repository: Path, revision: Revision) -> Iterator[Path]:
    """A whole checkout of a revision for the block, in which git commands work too."""
    with TemporaryDirectory(prefix="vkbench-", ignore_cleanup_errors=True) as scratch:
        tree = Path(scratch, "checkout")
        try:
            read_git(repository, "worktree", "add", "--detach", str(tree), revision.sha)
            yield tree
        finally:
            run_git(repository, "worktree", "remove", "--force", str(tree))


def read_git(repository: Path, *words: str) -> bytes:
    """What a git command prints; UsageError with its complaint where it fails."""
    done = run_git(repository, *words)
    if done.returncode:
        complaint = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise UsageError(f"git in {repository}: {''.join(complaint) or done.returncode}")
    return done.stdout


def run_git(repository: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run a git command on a repository; UsageError where git is not installed."""
    environ = {name: value for name, value in os.environ.items() if name not in _OF_HOOKS}
    try:
        return subprocess.run(
            ["git", "-C", str(repository), *_OPTIONS, *words],
            capture_output=True,
            check=False,
            env=environ,
        )
    except FileNotFoundError as error:
        raise UsageError("revisions need git, which is not installed") from error
