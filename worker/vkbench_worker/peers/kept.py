"""The bench of a case that a peer has checked, which stays between the visits of a pair.

A visit would else write the inputs and check the case anew, while the GPU's clock falls. What is
timed is judged after each visit all the same, over outputs that were poisoned before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from vkbench.job import Job
from vkbench_worker.phases import phase
from vkbench_worker.timing.bench import Bench
from vkbench_worker.timing.timed import Judged


@dataclass(frozen=True, kw_only=True)
class CheckedBench:
    """A bench, and what its case's check said."""

    bench: Bench
    judged: Judged


class KeptBench:
    """Has the bench of one job at most; without `stays` it is let go when its visit ends."""

    def __init__(self) -> None:
        self.stays = False  # whether the same job comes again
        self._key: tuple[int, int, str] | None = None
        self._checked: CheckedBench | None = None
        self._stack = ExitStack()

    @contextmanager
    def have(self, job: Job, make: Callable[[ExitStack], CheckedBench]) -> Iterator[CheckedBench]:
        """The bench of the job's last visit, or one that is made now."""
        key = (job.id, job.token, job.case)
        if key != self._key:
            self.let_go()
        try:
            if self._checked is None:
                self._checked = make(self._stack)
                self._key = key
            yield self._checked
        except BaseException:
            self.let_go()
            raise
        if not self.stays:
            self.let_go()

    def let_go(self) -> None:
        """Free what the bench has."""
        self._key = self._checked = None
        with phase("closing"):
            self._stack.close()
