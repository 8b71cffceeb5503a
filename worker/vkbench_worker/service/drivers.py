"""The drivers that jobs may run through on this host: those that were added here, and others'.

Another's driver travels as a build does: from the lab's place of builds, file by file, if the
host's policy lets its owner run native code here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from vkbench.device import Environment, HostDriver, OwnDrivers
from vkbench.drivers.copies import keep_own
from vkbench.drivers.store import drivers_of
from vkbench.errors import VkbenchError
from vkbench.messages.wire import Announcement
from vkbench.process import log
from vkbench.programs.build import SHA_SHOWN
from vkbench.programs.places.place import NotThere
from vkbench.programs.program import DRIVER
from vkbench.programs.store import BuildStore
from vkbench.settings import Settings
from vkbench_worker.errors import BuildAwaited
from vkbench_worker.policy import BuildForbidden
from vkbench_worker.protocol import Ready
from vkbench_worker.service.builds import BuildDepot

_log = logging.getLogger(__name__)

RENEW_SECONDS: Final = 86_400.0  # after which a copy counts as needed anew
MOST_THROUGH: Final = 16  # environments of drivers that an announcement has


class HostDrivers:
    """What a worker says of the drivers of its host, and the way to more."""

    def __init__(self, settings: Settings, builds: BuildDepot) -> None:
        self._store = drivers_of(settings)
        self._own_folder = settings.own_driver_folder()
        self._own = OwnDrivers()
        self._ready: Ready | None = None  # of the runner, as it was when its driver was copied
        self._renew_at = 0.0  # until when (monotonic) that copy is not looked at again
        self._builds = builds
        self._through: tuple[Environment, ...] = ()  # of results, the newest last
        self._listed: tuple[object, tuple[HostDriver, ...]] = (None, ())  # as of which state

    def provide(self, sha: str, is_over: Callable[[], bool]) -> None:
        """Have a driver; BuildForbidden says why this host runs no job through it."""
        if self._store.has(sha) or BuildStore(self._own_folder).has(sha):
            return
        lacks = f"this host has no driver {sha[:SHA_SHOWN]}"
        try:
            self._builds.provide(sha, DRIVER, is_over)
        except BuildForbidden as error:
            raise BuildForbidden(
                f"{lacks}, and takes none that comes with a job: {error}"
            ) from error
        except BuildAwaited as error:
            if isinstance(error.__cause__, NotThere):
                raise BuildForbidden(f"{lacks}, and {error.__cause__}") from error
            raise

    def keep_own(self, ready: Ready) -> None:
        """Copy the driver that this host runs on, to time the one after it against the copy.

        One that is known is looked at again after a day alone.
        """
        now = time.monotonic()
        if self._ready and self._ready.environment == ready.environment and now < self._renew_at:
            return
        self._ready, self._renew_at = ready, now + RENEW_SECONDS
        self._own = keep_own(ready.environment, self._own_folder)
        if self._own.reason:
            log.event(_log, "driver_not_copied", reason=self._own.reason)

    def note_environment(self, environment: Environment) -> None:
        """Have the fleet know the environment of results that come through a driver."""
        if environment not in self._through:
            self._through = (*self._through, environment)[-MOST_THROUGH:]

    def describe(self, announcement: Announcement) -> Announcement:
        """An announcement that says which drivers this host has, too, and what it runs on now."""
        kept = BuildStore(self._own_folder)
        copies = tuple(copy for copy in self._own.copies if kept.has(copy.sha))
        if self._ready:
            facts, environment = self._ready.facts, self._ready.environment
            announcement = replace(announcement, facts=facts, environment=environment)
        return replace(
            announcement,
            drivers=self._list(),
            own_drivers=replace(self._own, copies=copies),
            through=self._through,
        )

    def _list(self) -> tuple[HostDriver, ...]:
        """The drivers that were added here; read again once one is added or removed."""
        try:
            state = (self._store.builds.folder / "builds").stat().st_mtime_ns
            if self._listed[0] != state:
                self._listed = state, self._store.list_for_fleet()
        except (OSError, VkbenchError):  # no driver was ever added, or one is no driver
            self._listed = None, ()
        return self._listed[1]
