"""What jobs launch, worked out once: by foresight while a job waits, else when it is due."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from vkbench.device import DeviceFacts
from vkbench.job import Job
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.kernel import Problem
from vkbench_shaders.own.posing import pose_case
from vkbench_worker.runner.bounds import checks_bounds
from vkbench_worker.runner.variants import Choice, LaunchPlan, choose, plan

_MOST_KEPT: Final = 256  # more than an inbox has: jobs that are never due are forgotten


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A job's case, the code path and settings that it runs with, and their launches."""

    problem: Problem
    chosen: Choice
    launches: LaunchPlan


def plan_job(bundle: Bundle, job: Job, facts: DeviceFacts, *, checked: bool) -> Planned:
    """What a job does on a device by a bundle; Unsupported says why it does nothing there.

    `checked`: whether the device checks bounds.
    """
    problem = pose_case(bundle, job.case)
    chosen = choose(problem, job.variant, facts, job.tuned)
    launches = plan(bundle, chosen, facts, checked=checked)
    return Planned(problem=problem, chosen=chosen, launches=launches)


class Plans:
    """Plans of jobs that wait, each used once: what they depend on may change in a long run."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Job, str], tuple[DeviceFacts, Planned]] = {}

    def make(self, bundle: Bundle, job: Job, facts: DeviceFacts) -> Planned:
        """Plan a job, and keep the plan until the job is due."""
        made = plan_job(bundle, job, facts, checked=checks_bounds(bundle))
        while len(self._kept) >= _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[job, bundle.sha] = facts, made
        return made

    def take(self, bundle: Bundle, job: Job, facts: DeviceFacts) -> Planned:
        """The plan of a job that is due."""
        known, made = self._kept.pop((job, bundle.sha), (None, None))
        if made and known == facts:
            return made
        return plan_job(bundle, job, facts, checked=checks_bounds(bundle))


PLANS: Final = Plans()
