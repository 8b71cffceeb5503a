"""Makes builds of a program from git revisions, by the command that its declaration names.

The command runs as `make` would: by the user, with the user's rights, in a clean checkout.
"""

from __future__ import annotations

import hashlib
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
from typing import Final

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


@dataclass(frozen=True, kw_only=True)
class Maker:
    """Makes builds of one program from the revisions of a repository."""

    store: BuildStore
    program: Program
    repository: Path
    logs: Path  # folder
    tell: Tell
    limit_seconds: float = LIMIT_SECONDS
    is_over: Callable[[], bool] = never  # whether the build is not wanted any more

    @property
    def recipe(self) -> Recipe:
        """How the program is built; UsageError where its declaration does not say."""
        if self.program.build is None:
            raise UsageError(
                f"{self.program.name} does not say how it is built: add a table [build] with "
                "command and folder to its declaration, or give builds by `program build add`"
            )
        return self.program.build

    def find_made(self, revision: Revision) -> Build | None:
        """The build that was made of a revision by this recipe, if it is kept."""
        made = self._commit_of(revision)
        builds = self.store.list_builds()
        return next((build for build in builds if _is_made_of(build, self.program, made)), None)

    def make(self, revision: Revision, name: str = "") -> Build:
        """The build of a revision, made if it is not kept; NotBuilt says why there is none."""
        if made := self.find_made(revision):
            return self.store.rename(made, name) if name else made
        self._tell_submodules(revision)
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{self.program.name}-{revision.sha[:10]}.log"
        with work_tree(self.repository, revision) as tree:
            trouble = self._run_recipe(tree, log) or _find_no_folder(tree, self.recipe.folder)
            try:
                if trouble:
                    raise NoBuild(trouble)
                with open_build(tree / self.recipe.folder, self.program) as opens:
                    commit = self._commit_of(revision)
                    build = self.store.add(self.program.name, opens, name, commit=commit)
            except NoBuild as error:
                _check_room(tree)
                raise NotBuilt(_describe_failure(revision, str(error), log)) from error
            log.unlink()
            return build

    def _run_recipe(self, tree: Path, log: Path) -> str:
        """Run the command in a checkout; how it failed, or "". All that it started ends."""
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["sh", "-e", "-c", self.recipe.command],
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
        deadline = time.monotonic() + self.limit_seconds
        while not self.is_over():
            with suppress(subprocess.TimeoutExpired):
                status = process.wait(_LOOK_SECONDS)
                if status < 0:
                    return f"the command was ended by {signal.Signals(-status).name}"
                return f"the command ended with status {status}" if status else ""
            if time.monotonic() > deadline:
                return f"the command took over {span(self.limit_seconds)}"
            if log.stat().st_size > MOST_LOG_BYTES:
                return f"the command printed over {MOST_LOG_BYTES >> 20} MiB"
        raise MakingStopped

    def _commit_of(self, revision: Revision) -> Commit:
        recipe = f"{self.recipe.command}\0{self.recipe.folder}"
        return Commit(
            sha=revision.sha,
            name=revision.name,
            subject=revision.subject,
            committed_at=revision.committed_at,
            recipe=hashlib.sha256(recipe.encode()).hexdigest(),
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


def _is_made_of(build: Build, program: Program, made: Commit) -> bool:
    return build.program == program.name and any(
        (commit.sha, commit.recipe) == (made.sha, made.recipe) for commit in build.commits
    )
