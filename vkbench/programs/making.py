"""Makes builds from git revisions, by the command that a declaration names.

The command runs as `make` would: by the user, with the user's rights, in a clean checkout.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from vkbench.errors import UsageError, VkbenchError
from vkbench.process.git import Revision, list_submodules, work_tree
from vkbench.programs.build import Build, Commit, NoBuild
from vkbench.programs.program import Program, Recipe
from vkbench.programs.sources import open_build
from vkbench.programs.store import BuildStore
from vkbench.settings import PREFIX
from vkbench.words.units import count_of, span

LIMIT_SECONDS: Final = 3600.0
MOST_LOG_BYTES: Final = 256 << 20
SHOWN_LINES: Final = 12
_SHOWN_BYTES: Final = 16_384  # of a log's end
_LOOK_SECONDS: Final = 0.1
_FULL_BYTES: Final = 32 << 20  # a disk with less room than that is why a command failed

Tell = Callable[[str], None]


class NotBuilt(VkbenchError):
    """A revision does not build: the first line of the message says how it ended."""


class MakingStopped(VkbenchError):
    """A build is not made, since its user stopped the command."""


def never() -> bool:
    """Whether a build is not wanted any more, where nobody can say so."""
    return False


class Product(Protocol):
    """What is made of revisions, and kept by the hashes of its files."""

    @property
    def name(self) -> str:
        """What its declaration is called."""
        ...

    @property
    def recipe(self) -> Recipe:
        """How it is built; UsageError where its declaration does not say."""
        ...

    def check_name(self, name: str) -> None:
        """UsageError unless a build that is to be made can have a name."""
        ...

    def list_kept(self) -> list[Build]:
        """The builds of it that are kept."""
        ...

    def keep(self, folder: Path, commit: Commit, name: str) -> Build:
        """Keep what the recipe left in a folder; NoBuild says why that is no build."""
        ...

    def rename(self, build: Build, name: str) -> Build:
        """Call a build that is kept by another name."""
        ...


@dataclass(frozen=True, kw_only=True)
class ProgramProduct:
    """The builds of a program, which a store keeps."""

    program: Program
    store: BuildStore

    @property
    def name(self) -> str:
        """What the program is called."""
        return self.program.name

    @property
    def recipe(self) -> Recipe:
        """How the program is built; UsageError where its declaration does not say."""
        if self.program.build is None:
            raise UsageError(
                f"{self.program.name} does not say how it is built: add a table [build] with "
                "command and folder to its declaration, or give builds by `program build add`"
            )
        return self.program.build

    def check_name(self, name: str) -> None:
        """Any name will do: builds of a program are told by their hashes."""

    def list_kept(self) -> list[Build]:
        """The builds of the program that are kept."""
        return [build for build in self.store.list_builds() if build.program == self.name]

    def keep(self, folder: Path, commit: Commit, name: str) -> Build:
        """Keep the files that the program names; NoBuild says which is missing."""
        with open_build(folder, self.program) as opens:
            return self.store.add(self.name, opens, name, commit=commit)

    def rename(self, build: Build, name: str) -> Build:
        """Call a build that is kept by another name."""
        return self.store.rename(build, name)


@dataclass(frozen=True, kw_only=True)
class Maker:
    """Makes one product from the revisions of a repository."""

    product: Product
    repository: Path
    logs: Path  # folder
    tell: Tell
    limit_seconds: float | None = None  # of the command; None: what its recipe says
    is_over: Callable[[], bool] = never  # whether the build is not wanted any more

    def find_made(self, revision: Revision) -> Build | None:
        """The build that was made of a revision by this recipe, if it is kept."""
        commit = self._commit_of(revision)
        kept = self.product.list_kept()
        return next((build for build in kept if _is_made_of(build, commit)), None)

    def make(self, revision: Revision, name: str = "") -> Build:
        """The build of a revision, made if it is not kept; NotBuilt says why there is none."""
        if made := self.find_made(revision):
            return self.product.rename(made, name) if name else made
        if name:
            self.product.check_name(name)
        self._tell_submodules(revision)
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{self.product.name}-{revision.sha[:10]}.log"
        folder = self.product.recipe.folder
        with work_tree(self.repository, revision) as tree:
            trouble = self._run_recipe(tree, log) or _find_no_folder(tree, folder)
            try:
                if trouble:
                    raise NoBuild(trouble)
                build = self.product.keep(tree / folder, self._commit_of(revision), name)
            except NoBuild as error:
                _check_room(tree)
                raise NotBuilt(_describe_failure(revision, str(error), log)) from error
            log.unlink()
            return build

    def _run_recipe(self, tree: Path, log: Path) -> str:
        """Run the command in a checkout; how it failed, or "". All that it started ends."""
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["sh", "-e", "-c", self.product.recipe.command],
                cwd=tree,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_environ_of(tree, os.environ),
                process_group=0,  # Ctrl-C in a terminal is ours to handle
            )
            try:
                return self._wait(process, log)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _wait(self, process: subprocess.Popen[bytes], log: Path) -> str:
        limit = self._find_limit()
        deadline = time.monotonic() + limit
        while not self.is_over():
            with suppress(subprocess.TimeoutExpired):
                status = process.wait(_LOOK_SECONDS)
                if status < 0:
                    return f"the command was ended by {signal.Signals(-status).name}"
                return f"the command ended with status {status}" if status else ""
            if time.monotonic() > deadline:
                return f"the command took over {span(limit)}"
            if log.stat().st_size > MOST_LOG_BYTES:
                return f"the command printed over {MOST_LOG_BYTES >> 20} MiB"
        raise MakingStopped

    def _find_limit(self) -> float:
        """Seconds after which the command is ended."""
        if self.limit_seconds is not None:
            return self.limit_seconds
        minutes = self.product.recipe.minutes
        return LIMIT_SECONDS if minutes is None else minutes * 60

    def _commit_of(self, revision: Revision) -> Commit:
        return Commit(
            sha=revision.sha,
            name=revision.name,
            subject=revision.subject,
            committed_at=revision.committed_at,
            recipe=self.product.recipe.sha,
        )

    def _tell_submodules(self, revision: Revision) -> None:
        if paths := list_submodules(self.repository, revision):
            self.tell(
                f"{revision.name} has {count_of(len(paths), 'submodule')}, empty in its checkout: "
                f"{', '.join(paths[:3])}; `git submodule update --init` in the command fetches them"
            )


def find_ccache() -> str:
    """The program ccache, if it is installed."""
    return shutil.which("ccache") or ""


def _environ_of(tree: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The user's variables without vkbench's, which may be secret; CMake is told of ccache."""
    kept = {name: value for name, value in environ.items() if not name.startswith(PREFIX)}
    if not find_ccache():
        return kept
    return {
        "CMAKE_C_COMPILER_LAUNCHER": "ccache",
        "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
        "CCACHE_BASEDIR": str(tree),  # each checkout lies in another folder
        "CCACHE_NOHASHDIR": "1",
        **kept,
    }


def _find_no_folder(tree: Path, folder: str) -> str:
    """What is wrong with the folder that a command should have left; "" if nothing is."""
    place = (tree / folder).resolve()
    if not place.is_relative_to(tree.resolve()):
        return f"{folder} leads out of the checkout"
    return "" if place.is_dir() else f"the command left no folder {folder}"


def _check_room(tree: Path) -> None:
    """VkbenchError where a full disk may be why a command failed."""
    if shutil.disk_usage(tree).free < _FULL_BYTES:
        raise VkbenchError(
            f"the disk of {tree.parent} is full, so that nothing can be built there: set TMPDIR "
            "to a folder with more room"
        )


def _describe_failure(revision: Revision, trouble: str, log: Path) -> str:
    """How a revision failed, the last lines of its log, and where that lies."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _SHOWN_BYTES))
        last = deque(file.read().decode(errors="replace").splitlines(), maxlen=SHOWN_LINES)
    lines = [f"  {line}" for line in last]
    return "\n".join([f"{revision.label} does not build: {trouble} (log: {log})", *lines])


def _is_made_of(build: Build, commit: Commit) -> bool:
    return any((other.sha, other.recipe) == (commit.sha, commit.recipe) for other in build.commits)
