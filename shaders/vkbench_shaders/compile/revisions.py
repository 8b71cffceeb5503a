"""Lists git revisions of a shader tree, and compiles the code of one case from each."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from vkbench.errors import UsageError
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.compile.build import compile_units, units_for
from vkbench_shaders.kernel import Problem

FOLDER = "shaders/vkbench_shaders/slang"  # of this project's repository
_LABEL = 72  # characters


@dataclass(frozen=True, kw_only=True)
class Revision:
    """One commit of the repository of shaders."""

    sha: str
    subject: str

    @property
    def label(self) -> str:
        """The first digits of its hash, and its subject."""
        return f"{self.sha[:10]} {self.subject}"[:_LABEL].strip()


def revisions(repository: Path, good: str, bad: str, folder: str = FOLDER) -> list[Revision]:
    """The good revision, then those up to the bad one that change the folder, oldest first.

    Follows first parents, so that each revision differs from the one before; a merge counts as
    one change.
    """
    first, last = _commit(repository, good), _commit(repository, bad)
    if _run(repository, "merge-base", "--is-ancestor", first.sha, last.sha).returncode:
        raise UsageError(f"{good} is no ancestor of {bad} in {repository}")
    between = f"{first.sha}..{last.sha}"
    words = ["rev-list", "--reverse", "--first-parent", between, "--", folder]
    later = [_commit(repository, sha) for sha in _git(repository, *words).decode().split()]
    return [first, *later]


def has_file(repository: Path, revision: Revision, file: PurePosixPath) -> bool:
    """Whether a file, by its path from the repository's root, is in a revision."""
    return not _run(repository, "cat-file", "-e", f"{revision.sha}:{file}").returncode


def build_revision(repository: Path, revision: Revision, folder: str, problem: Problem) -> Bundle:
    """A bundle of one case's code at a revision; VkbenchError if it does not compile."""
    with checked_out(repository, revision, folder) as tree:
        return compile_units(tree, units_for(problem), revision.label)


@contextmanager
def checked_out(repository: Path, revision: Revision, folder: str) -> Iterator[Path]:
    """Extracts a folder at a revision for the block; the working tree stays as it is."""
    place = "" if folder == "." else folder.strip("/")
    archive = _git(repository, "archive", "--format=tar", f"{revision.sha}:{place}")
    with TemporaryDirectory(prefix="vkbench-") as scratch:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(scratch, filter="data")
        yield Path(scratch)


def _commit(repository: Path, name: str) -> Revision:
    if name.startswith("-"):
        raise UsageError(f"'{name}' is no revision")
    line = _git(repository, "log", "-1", "--format=%H %s", f"{name}^{{commit}}").decode()
    sha, _, subject = line.strip().partition(" ")
    return Revision(sha=sha, subject=subject)


def _git(repository: Path, *words: str) -> bytes:
    done = _run(repository, *words)
    if done.returncode:
        complaint = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise UsageError(f"git in {repository}: {''.join(complaint) or done.returncode}")
    return done.stdout


def _run(repository: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["git", "-C", str(repository), *words], capture_output=True, check=False
        )
    except FileNotFoundError as error:
        raise UsageError("revisions of shaders need git, which is not installed") from error
