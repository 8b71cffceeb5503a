"""Whether a driver was updated since a process loaded it, by what its files look like from outside.

An update replaces files, which a process that has loaded the old ones does not notice: it runs on
with these, while each process that starts later loads the new ones.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from vkbench.device import ICD, Environment
from vkbench.drivers.icd import OF_NVIDIA, list_places
from vkbench.errors import UsageError

STILL_SECONDS: Final = 2.0  # without a change, after which an update is taken to be over
_MOST_SECONDS: Final = 60.0  # for files to come back, and to be still
_LOOK_SECONDS: Final = 0.1

Stamp = tuple[tuple[int, int, int], ...]  # inode, nanoseconds of its date, and size of each file


class DriverFiles:
    """The manifest of the driver of an environment and its library, as they are on disk.

    Where it is not known which files these are, they never change. Nor do NVIDIA's: the new ones
    work with another kernel module, so that no process could load them before the system restarts.
    """

    def __init__(self, environment: Environment, began: float) -> None:
        """What a process loaded that was started at a moment of the system's clock."""
        self._manifest = environment.extra.get(ICD, "")
        self._stamp = self._read_stamp()
        # what was replaced while the process started is another file than it loaded, perhaps
        self._is_doubtful = began <= self._find_last_change() <= time.time()

    def have_moved(self) -> bool:
        """Whether a process that starts now may load other files."""
        return self._is_doubtful or self._read_stamp() != self._stamp

    def await_stillness(self, is_over: Callable[[], bool]) -> None:
        """Wait until nothing replaces the files any more, a minute at most."""
        end = time.monotonic() + _MOST_SECONDS
        while time.monotonic() < end and not is_over():
            seconds = time.time() - self._find_last_change()
            if self._read_stamp() and not 0 <= seconds <= STILL_SECONDS:  # a clock may be set back
                return
            time.sleep(_LOOK_SECONDS)

    def _read_stamp(self) -> Stamp:
        states = self._list_states()
        return tuple((state.st_ino, state.st_mtime_ns, state.st_size) for state in states)

    def _find_last_change(self) -> float:
        return max((state.st_ctime for state in self._list_states()), default=0.0)

    def _list_states(self) -> list[os.stat_result]:
        """The states of the manifest and its library, links followed; none without both."""
        if not self._manifest:
            return []
        manifest = Path(self._manifest)
        try:
            places = list_places(manifest)
            is_known = bool(places) and OF_NVIDIA not in places[0].name
            return [path.stat() for path in (manifest, places[0])] if is_known else []
        except (OSError, UsageError):
            return []
