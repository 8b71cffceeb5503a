"""A model's paired job: two bundles' kernels in turns, on the same weights and caches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median

from vkbench.errors import UnknownName
from vkbench.job import Job
from vkbench.result import Result, Side, Verdict
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.kernel import Array
from vkbench_worker.models.execute import check_trial, judged_again, pose_job, sha_of, work_of
from vkbench_worker.models.model import Model
from vkbench_worker.models.trial import Left, Trial
from vkbench_worker.runner.execute import attempt
from vkbench_worker.runtime.device import Buffer, Device
from vkbench_worker.runtime.errors import Unsupported
from vkbench_worker.timing.measure import LaunchWork
from vkbench_worker.timing.paired import ArmBench, time_pair, timed_if_right
from vkbench_worker.timing.visits import order


@dataclass(frozen=True, kw_only=True)
class TrialBench:
    """A model's phase as an arm times it."""

    trial: Trial
    work: LaunchWork
    seconds: float
    buffers: Sequence[Buffer] = ()  # they are the phase's own
    restored: Mapping[int, Array] = field(default_factory=dict)  # nothing: runs follow each other

    def fills(self, poison: int) -> Sequence[int | None]:
        """Nothing: there are no buffers to go round in."""
        return ()

    def renew(self, buffers: Sequence[Buffer], poison: int) -> None:
        """Overwrite what a run writes, so that no arm is credited with what the other left."""
        self.trial.run.poison(poison)


def execute_model_pair(device: Device, old: Bundle, new: Bundle, job: Job) -> Result:
    """Time two bundles beside each other; whatever happens is in the result."""
    return attempt(
        device, new, job, partial(_time_models, device, {Side.OLD: old, Side.NEW: new}, job)
    )


def _time_models(device: Device, bundles: Mapping[str, Bundle], job: Job, blank: Result) -> Result:
    task = pose_job(job, device.facts)
    one, other, *_ = order(job)
    with (
        Model(
            *(device, bundles[one], task.file, task.hyper, task.options),
            beside=[bundles[other]],
        ) as model,
        ExitStack() as stack,
    ):
        try:
            first = Trial(model, task.case, task.kept)
            second = Trial(model.by(bundles[other]), task.case, task.kept, like=first)
        except UnknownName as error:  # a bundle of other times may not have what is asked for
            raise Unsupported(str(error)) from error
        trials = {one: first, other: second}
        device.stop_making()
        result = replace(blank, variant=task.variant, kernel_sha=sha_of(trials[Side.NEW].run))
        arms, verdicts = {}, {}
        for name, trial in trials.items():
            left, verdicts[name] = check_trial(trial)
            again = partial(_again, trial, left, verdicts[name])
            arms[name] = ArmBench(bench=_bench(trial), again=again)
        timed = partial(time_pair, device, arms, job, stack)
        return timed_if_right(verdicts, timed, result)


def _bench(trial: Trial) -> TrialBench:
    seconds = median(trial.run.recording.run() or [1.0])
    return TrialBench(trial=trial, work=work_of(trial.run), seconds=seconds)


def _again(trial: Trial, left: Left, verdict: Verdict, sets: Sequence[Sequence[Buffer]]) -> Verdict:
    return judged_again(trial, left, verdict)
