"""Prepares waiting jobs ahead: their pipelines, inputs and references.

Whatever is wrong with such a job is left alone: the job meets it in its own turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from vkbench.job import Job, Mode
from vkbench_shaders.bundle import Bundle
from vkbench_worker.judging.shelf import SHELF, Need
from vkbench_worker.protocol import read_line
from vkbench_worker.runner.bounds import checks_bounds
from vkbench_worker.runner.plans import PLANS, Planned, plan_job
from vkbench_worker.runtime.device import Device
from vkbench_worker.runtime.program import Program

NEW_AT_ONCE: Final = 8  # lines read in one look: the job that is due waits for it


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a job will ask for; nothing where the job is wrong."""

    case: Need | None = None
    programs: Sequence[Program] = ()


class Foresight:
    """Makes ahead what the jobs of coming lines need."""

    def __init__(self, device: Device, bundle_of: Callable[[str], Bundle]) -> None:
        self._device = device
        self._bundle_of = bundle_of
        self._needs: dict[bytes, Needs] = {}

    def look(self, lines: Sequence[bytes]) -> None:
        """See to it that what these jobs need is being made, the first one's first."""
        if not self._device.makes_ahead and not SHELF.is_helped:
            return
        known = self._needs
        new = [line for line in lines if line not in known][:NEW_AT_ONCE]
        known |= {line: self._needs_of(line) for line in new}
        self._needs = {line: known[line] for line in lines if line in known}
        for needs in self._needs.values():
            for program in needs.programs:
                self._device.make_ahead(program)
        due, *coming = (known[line].case for line in lines if line in known)
        SHELF.expect(due, [case for case in coming if case])

    def _needs_of(self, line: bytes) -> Needs:
        try:
            job = read_line(line, Job)
            plans = self._plan_job(job)
        except Exception:  # said by the job itself
            return Needs()
        is_timed = job.mode is Mode.COMPILE  # the making itself
        programs = [
            program for planned in plans for program, _ in planned.launches.passes if not is_timed
        ]
        path = plans[0].chosen.variant.arithmetic
        case = Need(problem=plans[0].problem, source=job.source, path=path)
        return Needs(case=case, programs=programs)

    def _plan_job(self, job: Job) -> list[Planned]:
        facts = self._device.facts
        if not job.pair:
            return [PLANS.make(self._bundle_of(job.bundle), job, facts)]
        bundles = [self._bundle_of(name) for name in job.bundles]
        checked = checks_bounds(*bundles)
        return [plan_job(bundle, job, facts, checked=checked) for bundle in bundles]
