"""What devices share that run each launch at once: no queue, no driver and nothing made ahead."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from vkbench.result import Statistic
from vkbench_worker.runtime.device import Recording
from vkbench_worker.runtime.load import Load
from vkbench_worker.runtime.program import Program


class EagerRecording:
    """Steps that run when they are asked for; a recording holds no handles."""

    _last: Sequence[float] = ()

    def _run(self) -> list[float]:
        raise NotImplementedError

    def run(self) -> list[float]:
        """Carry the steps out: seconds from each stamp to the next."""
        self._last = seconds = self._run()
        return seconds

    def enqueue(self) -> None:
        """Run at once: there is no queue of launches."""
        self.run()

    def seconds(self) -> list[float]:
        """What the last run gave."""
        return list(self._last)

    def close(self) -> None:
        """Do nothing: there are no handles to free."""


class EagerDevice:
    """A device without a driver, which has no pipelines to make or to keep."""

    checks_bounds = False
    makes_ahead = False

    def __init__(self, gauge: Callable[[], float] | None = None) -> None:
        self.pci_address = ""
        self.load = Load(gauge)
        self.patience_seconds = 600.0

    def memory_of_others(self) -> int | None:
        """Nothing is known: there is no driver to ask."""
        return None

    def make_ahead(self, program: Program) -> None:
        """Do nothing: there is no pipeline to be made."""

    def held_pipelines(self) -> AbstractContextManager[None]:
        """Hold nothing: functions stay anyway."""
        return nullcontext()

    def stop_making(self) -> None:
        """Do nothing: no launch is ever under way."""

    def list_statistics(self, programs: Sequence[Program]) -> list[Statistic]:
        """Nothing: there are no pipelines to ask about."""
        return []

    def time_submission(self, recording: Recording) -> float:
        """Run at once: seconds of it all."""
        began = time.perf_counter()
        recording.run()
        return time.perf_counter() - began

    def raise_messages(self) -> None:
        """Do nothing: there is no validation layer to complain."""

    def save_cache(self) -> None:
        """Do nothing: there is no driver that compiles."""
