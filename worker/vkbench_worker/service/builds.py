"""Builds that jobs name and this host lacks come from the lab's place of builds, file by file.

First the policy: who signed the build has to be one whose programs this host runs. Then the files,
each checked against its hash; what came of one stays when the rest does not, and the jobs go back
without a try until it is there.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from vkbench.errors import UsageError, VkbenchError
from vkbench.process import log
from vkbench.process.plain_file import replace_file
from vkbench.programs.build import Build
from vkbench.programs.places.folder import FolderPlace
from vkbench.programs.places.opening import open_place
from vkbench.programs.places.place import NotThere, OtherBytes, Place, PlaceUnreachable
from vkbench.programs.places.place import key_of_signed as place_of_signed
from vkbench.programs.program import Program
from vkbench.programs.signed import SignedBuild, get_signed
from vkbench.programs.store import BuildStore, DamagedBuild
from vkbench.programs.transfer import Fetch, OutOfTime
from vkbench.settings import Settings
from vkbench_worker import policy
from vkbench_worker.errors import BuildAwaited
from vkbench_worker.service.fetched import REST_SECONDS

PATIENCE_SECONDS: Final = 60.0  # with one build: other jobs wait meanwhile, and it is read on later
LACK_SECONDS: Final = 10.0  # after which it is looked for again
TRUST_SECONDS: Final = 300.0  # after which it is asked again how its program was declared
_MOST_WORDS: Final = 500

_log = logging.getLogger(__name__)


class BuildDepot:
    """The builds of this host, and the way to more."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = BuildStore(settings.build_folder())
        # build -> the state of the policy that allowed it, and until when (monotonic)
        self._here: dict[str, tuple[object, float]] = {}
        self._allowed = FolderPlace(self._store.folder / "allowed")  # what was signed of each
        self._awaited: dict[str, tuple[float, BuildAwaited]] = {}  # build -> until when, and why

    def provide(self, sha: str, program: str, is_over: Callable[[], bool]) -> None:
        """Have a build of a program whose owner may run programs here.

        BuildForbidden if he may not; BuildAwaited if it does not come, or cannot be stored here.
        """
        allowed_as, until = self._here.get(sha, (None, 0.0))
        state = policy.state_of(self._settings.builds)
        if allowed_as != state or time.monotonic() > until:
            self._require_patience(sha)
            try:
                self._get(sha, program, is_over)
            except (PlaceUnreachable, OtherBytes, OutOfTime, UsageError) as error:
                raise self._await(sha, str(error)) from error
            except OSError as error:
                raise self._await(sha, f"it cannot be stored here: {error}") from error
            self._here[sha] = (state, time.monotonic() + TRUST_SECONDS)
        with suppress(FileNotFoundError):  # this host's user added it
            os.utime(self._mark(sha))

    def doubt(self) -> None:
        """Check all builds again before the next job: one could not be used."""
        self._here = {}

    def _require_patience(self, sha: str) -> None:
        until, awaited = self._awaited.get(sha, (0.0, None))
        if awaited and time.monotonic() < until:
            raise awaited

    def _await(self, sha: str, why: str) -> BuildAwaited:
        awaited = BuildAwaited(sha, why[:_MOST_WORDS])
        self._awaited[sha] = (time.monotonic() + LACK_SECONDS, awaited)
        log.warn(_log, "build_awaited", build=sha, reason=why)
        return awaited

    def _get(self, sha: str, program: str, is_over: Callable[[], bool]) -> None:
        policy.check_builds_run(self._settings.builds)
        place = open_place(self._settings)
        signed = self._find_allowed(sha, place)
        build = signed.declared.build
        if build.program != program:
            raise VkbenchError(f"build {sha[:12]} is of {build.program}, not of {program}")
        if self._store.is_in_place(sha):  # of this host's user; checked as its process starts
            return
        self._drop_damaged(build)
        if not self._store.has(sha):
            self._mark(sha).parent.mkdir(parents=True, exist_ok=True)
            self._mark(sha).touch()
        deadline = time.monotonic() + PATIENCE_SECONDS
        nbytes = Fetch(self._store, place, is_over, deadline)(build)
        self._awaited.pop(sha, None)
        if nbytes:
            log.event(_log, "build_fetched", build=sha, bytes=nbytes)
            self._evict()

    def program_of(self, build: Build) -> Program:
        """The program of a build that was provided, as its owner declared it."""
        return get_signed(build.sha, self._allowed).declared.program

    def _find_allowed(self, sha: str, place: Place) -> SignedBuild:
        """What is signed of a build, in the place or as it came before; the policy allows it."""
        try:
            signed = get_signed(sha, place)
        except (PlaceUnreachable, UsageError) as error:
            try:
                signed = get_signed(sha, self._allowed)
            except UsageError:
                raise _explain_absence(place, error) from error
        owner = policy.check_build(self._settings.builds, sha, signed)
        log.event(_log, "build_allowed", build=sha, owner=owner)
        kept = self._allowed.folder / place_of_signed(sha)
        kept.parent.mkdir(parents=True, exist_ok=True)
        replace_file(kept, msgspec.json.encode(signed))
        return signed

    def _drop_damaged(self, build: Build) -> None:
        """Remove files of a build that are not what they were: they come anew."""
        for file in build.files:
            with suppress(FileNotFoundError):
                try:
                    self._store.check_file(build, file)
                except DamagedBuild:
                    self._store.path_of(file.sha).unlink(missing_ok=True)

    def _mark(self, sha: str) -> Path:
        """The empty file whose date is that of the build's last use."""
        return self._store.folder / "fetched" / sha

    def _evict(self) -> None:
        """Remove fetched builds, the longest unused first, until they are few enough."""
        fetched = []
        for build in self._store.list_builds():
            with suppress(FileNotFoundError):
                fetched.append((self._mark(build.sha).stat().st_mtime, build.sha, build))
        total = sum(build.nbytes for _, _, build in fetched)
        for used, sha, build in sorted(fetched):
            if total <= self._settings.build_megabytes * 10**6 or time.time() - used < REST_SECONDS:
                return
            self._store.remove([build])
            self._mark(sha).unlink(missing_ok=True)
            total -= build.nbytes
            log.event(_log, "build_evicted", build=sha)


def _explain_absence(place: Place, error: VkbenchError) -> VkbenchError:
    if not isinstance(error, NotThere):
        return error
    where = "VKBENCH_STORE names where `vkbench submit` puts builds"
    return NotThere(f"{place.name} has no such build; {where}")
