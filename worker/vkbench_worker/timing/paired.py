"""A paired job: two bundles' code for one case, timed in turns on the same buffers.

The order is old, new, new, old, so that what drifts meanwhile meets both alike, or new, old, old,
new: pairs take turns in which arm is set up and timed first. Neither is timed unless both are
right; `visits.py` takes the turns and judges both again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from vkbench.errors import UnknownName
from vkbench.job import Job, Outcome, pair_of
from vkbench.result import ARMS, Result, Side, Timing, Verdict
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.kernel import Array, Flow, Problem
from vkbench_shaders.own.posing import NotDeclared, pose_case
from vkbench_worker.judging.shelf import SHELF
from vkbench_worker.phases import closing_stack, phase
from vkbench_worker.runner.bounds import checks_bounds
from vkbench_worker.runner.execute import attempt
from vkbench_worker.runner.variants import Choice, LaunchPlan, choose, plan
from vkbench_worker.runtime.device import Buffer, Device
from vkbench_worker.runtime.errors import Unsupported
from vkbench_worker.runtime.program import POISON_A
from vkbench_worker.timing.bench import Bench
from vkbench_worker.timing.measure import (
    LaunchWork,
    SampleBounds,
    Visit,
    Visitor,
    hot_visitor,
    launches_a_sample,
    rotating_visitor,
    warm_up,
)
from vkbench_worker.timing.paired_flights import time_flights
from vkbench_worker.timing.restoring import restored_rotation, ring
from vkbench_worker.timing.rotation import Rotation, rotation
from vkbench_worker.timing.summary import Timed
from vkbench_worker.timing.timed import Judged, check, judge_again
from vkbench_worker.timing.visits import (
    LEAST_SAMPLES,
    Entrant,
    blamed_verdict,
    in_turns,
    order,
    reason_of,
    rounds_of,
)


class Timeable(Protocol):
    """Work that was set up: a kernel's (`Bench`), or a whole model's."""

    @property
    def work(self) -> LaunchWork: ...

    @property
    def buffers(self) -> Sequence[Buffer]: ...

    @property
    def restored(self) -> Mapping[int, Array]: ...

    @property
    def seconds(self) -> float: ...

    def fills(self, poison: int) -> Sequence[int | None]: ...

    def renew(self, buffers: Sequence[Buffer], poison: int) -> None: ...


@dataclass(frozen=True, kw_only=True)
class ArmBench:
    """One of the two, set up and judged right."""

    bench: Timeable
    again: Callable[[Sequence[Sequence[Buffer]]], Verdict]  # on what timing left in sets of buffers


def execute_pair(device: Device, old: Bundle, new: Bundle, job: Job) -> Result:
    """Time two bundles beside each other; whatever happens is in the result."""
    return attempt(
        device, new, job, partial(_time_bundles, device, {Side.OLD: old, Side.NEW: new}, job)
    )


def _time_bundles(device: Device, bundles: Mapping[str, Bundle], job: Job, blank: Result) -> Result:
    with phase("choice"):
        problems = _pose_problems(bundles, job)
        choices = {
            name: choose(problem, job.variant, device.facts, job.tuned)
            for name, problem in problems.items()
        }
        flow = _flow(problems)
        checked = checks_bounds(*bundles.values())  # both arms alike
        plans = {
            name: _plan_launches(device, name, bundle, choices[name], checked=checked)
            for name, bundle in bundles.items()
        }
    chosen = choices[Side.NEW]
    prepared = SHELF.get(problems[Side.NEW], job.source, chosen.variant.arithmetic)
    result = replace(
        blank, variant=chosen.name, settings=chosen.settings, kernel_sha=plans[Side.NEW].sha
    )
    turns = order(job)
    one, other, *_ = turns
    with closing_stack() as stack:
        first = Bench(device, plans[one], prepared.storages, stack)
        benches = {one: first, other: first.other(plans[other], stack)}
        with phase("pipelines"):
            device.stop_making()
        judged = {
            name: check(bench, chosen.variant.arithmetic, prepared)
            for name, bench in benches.items()
        }
        if flow:
            timed = partial(time_flights, device, benches, judged, flow, turns, job, stack)
        else:
            timed = partial(time_pair, device, _arms(benches, judged), job, stack)
        verdicts = {name: check_of_arm.verdict for name, check_of_arm in judged.items()}
        return timed_if_right(verdicts, timed, result)


def _arms(benches: Mapping[str, Bench], judged: Mapping[str, Judged]) -> Mapping[str, ArmBench]:
    return {
        name: ArmBench(bench=bench, again=partial(judge_again, bench, judged[name]))
        for name, bench in benches.items()
    }


def timed_if_right(
    verdicts: Mapping[str, Verdict], time_arms: Callable[[], Timed], result: Result
) -> Result:
    """The result with the verdict on both arms, and their timings if both are right."""
    verdict = blamed_verdict(verdicts)
    if verdict.passed:
        with SHELF.pause_preparing():
            timed_arms = time_arms()
        verdict = timed_arms.verdict
        result = replace(result, timings=timed_arms.timings, telemetry=timed_arms.telemetry)
    outcome = Outcome.PASSED if verdict.passed else Outcome.WRONG
    return replace(result, outcome=outcome, reason=reason_of(verdict), verdict=verdict)


def _pose_problems(bundles: Mapping[str, Bundle], job: Job) -> Mapping[str, Problem]:
    """The case as each bundle declares it: on the same arrays, or they cannot be compared."""
    problems = {}
    for name, bundle in bundles.items():
        try:
            problems[name] = pose_case(bundle, job.case)
        except NotDeclared as error:
            raise Unsupported(f"{name}: {error}") from error
    old, new = (problems[name].kernel.bindings for name in ARMS)
    if old != new:
        raise Unsupported(f"the old bundle declares other arrays of {job.case} than the new one")
    return problems


def _flow(problems: Mapping[str, Problem]) -> Flow | None:
    """How launches are submissions of their own, which they have to be for both arms."""
    old, new = (problems[name].kernel.work.flow for name in ARMS)
    if old != new:
        raise Unsupported("one bundle has its launches timed as submissions, the other has not")
    return new


def _plan_launches(
    device: Device, name: str, bundle: Bundle, chosen: Choice, *, checked: bool
) -> LaunchPlan:
    """How a bundle does a problem; one of other times may not have the code that is asked for."""
    try:
        return plan(bundle, chosen, device.facts, checked=checked)
    except UnknownName as error:
        raise Unsupported(f"{name}: {error}") from error


def time_pair(
    device: Device,
    arms: Mapping[str, ArmBench],
    job: Job,
    stack: ExitStack,
) -> Timed:
    """Timings of both arms, which were judged right, and the verdict after them.

    Both put as many launches into a sample, and are warm before the first visit.
    """
    whole = SampleBounds(seconds=job.measure_seconds / len(ARMS), noise=job.noise)
    warm = {name: _launch_seconds(device, arm.bench, whole) for name, arm in arms.items()}
    seconds, metric = min(warm.values()), pair_of(job).metric
    with phase("sets"):
        sets = _sets(device, arms[Side.OLD].bench, metric, seconds, whole, stack)
        entrants = {
            name: _entrant(
                arm, sets, _visitor(device, arm.bench, sets, metric, seconds, whole, stack), metric
            )
            for name, arm in arms.items()
        }
    least = max(warm.values()) * max(LEAST_SAMPLES * sets.launches, len(sets.sets))
    rounds = rounds_of(device, least, whole)
    return in_turns(device, entrants, order(job), rounds, whole)


def _entrant(arm: ArmBench, sets: Rotation, visitor: Visitor, metric: str) -> Entrant:
    def poison() -> None:
        for buffers in sets.sets:
            arm.bench.renew(buffers, POISON_A)

    def again(visit: Visit) -> Verdict:
        return arm.again(sets.sets[: len(visit.samples) * visitor.launches])

    def summed_up(visits: Sequence[Visit]) -> Timing:
        return visitor.summed_up(metric, visits, sets.warnings)

    return Entrant(visitor=visitor, poison=poison, again=again, summed_up=summed_up)


def _launch_seconds(device: Device, bench: Timeable, bounds: SampleBounds) -> float:
    if bench.restored:  # its launches cannot follow each other to warm up; visits do that
        return bench.seconds
    return warm_up(device, bench.work, bench.buffers, bench.seconds, bounds)


def _sets(
    device: Device,
    bench: Timeable,
    metric: str,
    seconds: float,
    bounds: SampleBounds,
    stack: ExitStack,
) -> Rotation:
    """The buffers that launches go round in: hot ones always take the same."""
    launches = launches_a_sample(device, seconds, bounds)
    if metric == "cold":
        moved = bench.work.bytes_moved
        sets = rotation(device, bench.buffers, bench.fills(POISON_A), launches, moved, stack)
        return restored_rotation(device, sets, bench.restored, stack)
    if bench.restored:
        return ring(device, bench.buffers, bench.restored, launches, stack)
    return Rotation(sets=[bench.buffers], launches=launches)


def _visitor(
    device: Device,
    bench: Timeable,
    sets: Rotation,
    metric: str,
    seconds: float,
    bounds: SampleBounds,
    stack: ExitStack,
) -> Visitor:
    if metric == "cold" or bench.restored:
        return rotating_visitor(device, bench.work, sets, seconds, stack)
    return hot_visitor(device, bench.work, bench.buffers, seconds, bounds, stack)
