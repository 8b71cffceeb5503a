"""Reads git repositories of users: revisions in order, and their files, extracted elsewhere.

No function changes a repository's work tree, its index or its branches.
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from vkbench.errors import UsageError

_LABEL = 72  # characters
# Where git hooks run, these name the hook's repository, whatever `-C` says.
_OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")


@dataclass(frozen=True, kw_only=True)
class Revision:
    """One commit of a repository."""

    sha: str
    subject: str
    committed_at: float = 0.0

    @property
    def label(self) -> str:
        """The first digits of its hash, and its subject."""
        return f"{self.sha[:10]} {self.subject}"[:_LABEL].strip()


def find_revision(repository: Path, name: str) -> Revision:
    """The commit that a name means; UsageError where there is none."""
    if name.startswith("-"):
        raise UsageError(f"'{name}' is no revision")
    return _list_log(repository, "-1", f"{name}^{{commit}}")[0]


def revisions(repository: Path, good: str, bad: str, folder: str = ".") -> list[Revision]:
    """The good revision, then those up to the bad one that change the folder, oldest first.

    Follows first parents, so that each revision differs from the one before; a merge counts as
    one change.
    """
    first, last = find_revision(repository, good), find_revision(repository, bad)
    if run_git(repository, "merge-base", "--is-ancestor", first.sha, last.sha).returncode:
        raise UsageError(f"{good} is no ancestor of {bad} in {repository}")
    between = f"{first.sha}..{last.sha}"
    return [first, *_list_log(repository, "--reverse", "--first-parent", between, "--", folder)]


def _list_log(repository: Path, *words: str) -> list[Revision]:
    log = read_git(repository, "log", "--format=%H %ct %s", *words).decode(errors="replace")
    parts = (line.split(" ", 2) for line in log.split("\n") if line)
    return [
        Revision(sha=sha, committed_at=float(seconds), subject=subject)
        for sha, seconds, subject in parts
    ]


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
            ["git", "-C", str(repository), "-c", "log.showSignature=false", *words],
            capture_output=True,
            check=False,
            env=environ,
        )
    except FileNotFoundError as error:
        raise UsageError("revisions need git, which is not installed") from error
