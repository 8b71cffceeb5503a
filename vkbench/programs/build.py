"""A build: one version of a program, named by the hash of its files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO, Final

from vkbench.errors import UsageError

OpenFile = Callable[[], AbstractContextManager[BinaryIO]]  # opens a file of a build to be read

MOST_FILES: Final = 1000
MOST_BYTES: Final = 4 << 30  # of all files
MOST_PATH: Final = 255  # characters
SHA_SHOWN: Final = 12  # digits of a hash that people read
NAME_ALONE: Final = "known by its name alone"  # in the place of such a build's files
_SHA_DIGITS: Final = frozenset("0123456789abcdef")


class NoBuild(UsageError):
    """This is no build that vkbench takes."""


@dataclass(frozen=True, kw_only=True, order=True)
class BuildFile:
    """A file of a build."""

    path: str  # below the build's folder, with / between its parts
    sha: str  # SHA-256 of what it holds
    nbytes: int


@dataclass(frozen=True, kw_only=True)
class Commit:
    """What a build was made of: a commit of the program's repository, by a recipe."""

    sha: str
    name: str  # its tag, or the first digits of its hash
    subject: str
    committed_at: float
    recipe: str  # SHA-256 of the command and the folder


@dataclass(frozen=True, kw_only=True)
class Build:
    """The files of one version of a program; their folder may lie anywhere."""

    program: str
    files: tuple[BuildFile, ...]
    name: str = ""  # what people call it: a release, a revision
    added_at: float = 0.0
    commits: tuple[Commit, ...] = ()  # that gave these files, if it was made on this machine
    folder: str = ""  # where this machine's user keeps the files; "" if vkbench keeps them

    @property
    def sha(self) -> str:
        """SHA-256 of what `sha256sum` prints of its files, sorted by their paths."""
        lines = (f"{file.sha}  {file.path}\n" for file in sorted(self.files))
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def label(self) -> str:
        """What people call it, or the beginning of its hash."""
        return self.name or self.sha[:12]

    @property
    def made_of(self) -> list[str]:
        """The commits that gave these files, if it was made on this machine."""
        return [f"{commit.sha[:10]} {commit.subject}" for commit in self.commits]

    @property
    def is_name_alone(self) -> bool:
        """Whether none of its files is known: its results come from imports."""
        return [file.path for file in self.files] == [NAME_ALONE]

    @property
    def nbytes(self) -> int:
        """Bytes of all of its files; equal ones count once."""
        return sum({file.sha: file.nbytes for file in self.files}.values())


def build_of_name(program: str, name: str) -> Build:
    """A build of which the name alone is known, as of a file of results: always the same one."""
    sha = hashlib.sha256(f"{program} {name}".encode()).hexdigest()
    file = BuildFile(path=NAME_ALONE, sha=sha, nbytes=0)
    return Build(program=program, name=name, files=(file,))


def name_build(name: str, sha: str) -> str:
    """What people read of a build: "b8390 (82201030ab12)", or its short hash alone."""
    return f"{name} ({sha[:SHA_SHOWN]})" if name else sha[:SHA_SHOWN]


def find_word(name: str, sha: str) -> str:
    """What people type to mean a build: its name, or its short hash."""
    return name or sha[:SHA_SHOWN]


def is_of_build(kernel: str, bundle: str) -> bool:
    """Whether a result with these hashes is of a build of a program, which is its own kernel."""
    return bool(bundle) and kernel == bundle


def check_build(build: Build) -> Build:
    """The build, if none of what it says could do harm; NoBuild otherwise."""
    if not build.files:
        raise NoBuild(f"a build of {build.program} has no files")
    if len(build.files) > MOST_FILES or build.nbytes > MOST_BYTES:
        raise NoBuild(
            f"a build has at most {MOST_FILES} files and {MOST_BYTES >> 30} GiB, and this one has "
            f"{len(build.files)} files and {build.nbytes / 2**30:.1f} GiB"
        )
    paths = [check_path(file.path) for file in build.files]
    if len(set(paths)) < len(paths):
        raise NoBuild("a build has each file once")
    for file in build.files:
        if len(file.sha) != 64 or not _SHA_DIGITS.issuperset(file.sha) or file.nbytes < 0:
            raise NoBuild(f"the hash or the size of {file.path!r} is malformed")
    return build


def check_path(path: str) -> str:
    """The path of a file that lies below its build's folder; NoBuild if it leads elsewhere."""
    pure = PurePosixPath(path)
    is_inside = path == str(pure) and not pure.is_absolute() and ".." not in pure.parts
    if not path or path == "." or not is_inside or len(path) > MOST_PATH or not path.isprintable():
        raise NoBuild(f"a build's file cannot be called {path!r}")
    return path
