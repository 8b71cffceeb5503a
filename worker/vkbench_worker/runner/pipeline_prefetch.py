"""Asks for the pipelines of jobs that have come and whose turn has not.

Whatever is wrong with such a job is left alone: the job meets it in its own turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic

from vkbench.job import Job, Mode
from vkbench_shaders import catalogue
from vkbench_shaders.bundle import Bundle
from vkbench_worker.protocol import read_line
from vkbench_worker.runner.variants import choose, plan
from vkbench_worker.runtime.computer import B, Computer, P
from vkbench_worker.runtime.program import Program

NEW_AT_ONCE: Final = 8  # lines read in one look: the job that is due waits for it


class Foresight(Generic[P, B]):
    """The programs of the lines that come next."""

    def __init__(self, device: Computer[P, B], bundle_of: Callable[[str], Bundle]) -> None:
        self._device = device
        self._bundle_of = bundle_of
        self._programs: dict[bytes, Sequence[Program]] = {}

    def look(self, lines: Sequence[bytes]) -> None:
        """See to it that the pipelines of these jobs are being made, the first one first."""
        if not self._device.makes_ahead:
            return
        known = self._programs
        new = [line for line in lines if line not in known][:NEW_AT_ONCE]
        known |= {line: self._programs_of(line) for line in new}
        self._programs = {line: known[line] for line in lines if line in known}
        for programs in self._programs.values():
            for program in programs:
                self._device.make_ahead(program)

    def _programs_of(self, line: bytes) -> Sequence[Program]:
        try:
            job = read_line(line, Job)
            problem = catalogue.problem(job.case)
            chosen = choose(problem, job.variant, self._device.facts, job.tuned)
            bundles = (job.bundle, job.against) if job.mode is Mode.PAIRED else (job.bundle,)
            plans = [plan(self._bundle_of(b), chosen, self._device.facts) for b in bundles]
        except Exception:  # said by the job itself
            return ()
        return [program for planned in plans for program, _ in planned.passes]
