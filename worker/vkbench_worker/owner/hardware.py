"""Devices that share hardware: a job that is timed on one of them has all of it.

One GPU may be two devices, of two drivers, and all CPU drivers are the same CPU. Checks go side by
side; a timed job waits for their end, and they for its, or its times would hold others' work.
Every job works on the CPU too: it makes inputs and references there. So while a CPU driver times,
GPUs wait; GPUs time side by side, for their own clocks do not see what the CPU does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from vkbench.process import system
from vkbench.settings import Settings
from vkbench_worker.protocol import PROCESSOR, Ready, lock_folder

_LOOK_SECONDS: Final = 0.02


class Hardware:
    """What may be shared with other processes of this host that use the same folder."""

    def __init__(self, folder: Path, name: str) -> None:
        stem = name.replace(":", "-")
        self._turn = folder / f"{stem}.turn"
        self._use = folder / f"{stem}.use"
        self._processor = Hardware(folder, PROCESSOR) if name != PROCESSOR else None

    @classmethod
    def of(cls, ready: Ready, settings: Settings) -> Hardware:
        """The hardware of a runner's device, which may be the device's alone."""
        return cls(lock_folder(settings), ready.hardware or ready.facts.key)

    @contextmanager
    def hold(self, *, alone: bool, leaving: Callable[[], bool]) -> Iterator[bool]:
        """Hold the hardware, alone or with others that do not time; False if `leaving` came first.

        A process that waits for it holds the turn, so the last holder cannot take it again first.
        The processor is taken last, and never alone by a GPU: no two can wait for each other.
        """
        with ExitStack() as use:
            with ExitStack() as turn:
                is_held = _lock_file(turn, self._turn, False, leaving) and _lock_file(
                    use, self._use, not alone, leaving
                )
            if is_held and self._processor:
                is_held = use.enter_context(self._processor.hold(alone=False, leaving=leaving))
            yield is_held


def _lock_file(stack: ExitStack, path: Path, shared: bool, leaving: Callable[[], bool]) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    file = stack.enter_context(path.open("a"))
    while not leaving():
        if system.lock(file, shared=shared, waits=False):
            return True
        time.sleep(_LOOK_SECONDS)
    return False
