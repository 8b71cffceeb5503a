"""A paired job: two bundles' code for one case, timed in turns on the same buffers.

The order is old, new, new, old, so that what drifts meanwhile meets both alike, or new, old, old,
new: pairs take turns in which arm is set up and timed first. On a CPU driver the order is gone
through several times. Neither is timed unless both are right; each is judged again after each of
its last visits, over outputs that were poisoned before it, so that none is credited with what the
other left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Generic, Protocol

from vkbench.errors import UnknownName
from vkbench.job import Job, Outcome
from vkbench.result import NEW, OLD, Result, Verdict, WrongArm
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.kernel import Problem
from vkbench_shaders.own.posing import NotDeclared, posed
from vkbench_worker.judging.shelf import SHELF
from vkbench_worker.runner.execute import attempt
from vkbench_worker.runner.variants import Choice, LaunchPlan, checks_bounds, choose, plan
from vkbench_worker.runtime.computer import B, Computer, P
from vkbench_worker.runtime.errors import Unsupported
from vkbench_worker.runtime.program import POISON_A
from vkbench_worker.timing import telemetry
from vkbench_worker.timing.bench import Bench
from vkbench_worker.timing.measure import (
    LaunchWork,
    SampleBounds,
    Visit,
    Visitor,
    cold_visitor,
    hot_visitor,
    launches_a_sample,
    warmed,
)
from vkbench_worker.timing.rotation import Rotation, rotation
from vkbench_worker.timing.timed import Timed, check, judge_again

ARMS: Final = (OLD, NEW)
# A CPU is shared, and what others do there lasts longer than a visit: of equal code the ratios of
# pairs were 16 % apart in one round and 2 to 5 % in five, in the same time. On a GPU each visit has
# to wait for the clock.
CPU_ROUNDS: Final = 5
_LEAST_SAMPLES: Final = 5  # that a visit has time for, or there are fewer rounds


class Timeable(Protocol[P, B]):
    """Work that was set up: a kernel's (`Bench`), or a whole model's."""

    @property
    def work(self) -> LaunchWork[P]: ...

    @property
    def buffers(self) -> Sequence[B]: ...

    @property
    def is_poisoned(self) -> Sequence[bool]: ...

    @property
    def seconds(self) -> float: ...

    def renew(self, buffers: Sequence[B], poison: int) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Arm(Generic[P, B]):
    """One of the two, set up and judged."""

    bench: Timeable[P, B]
    verdict: Verdict
    again: Callable[[Sequence[Sequence[B]]], Verdict]  # on what timing left in sets of buffers


def execute_pair(device: Computer[P, B], old: Bundle, new: Bundle, job: Job) -> Result:
    """Time two bundles beside each other; whatever happens is in the result."""
    return attempt(device, new, job, partial(_compared, device, old, new, job))


def _compared(device: Computer[P, B], old: Bundle, new: Bundle, job: Job, blank: Result) -> Result:
    bundles = {OLD: old, NEW: new}
    problems = _posed(bundles, job)
    choices = {
        name: choose(problem, job.variant, device.facts, job.tuned)
        for name, problem in problems.items()
    }
    if any(problem.kernel.flow for problem in problems.values()):
        raise Unsupported("submissions are not timed in pairs")
    checked = checks_bounds(old, new)  # both arms alike
    plans = {
        name: _planned(device, name, bundle, choices[name], checked=checked)
        for name, bundle in bundles.items()
    }
    chosen, prepared = choices[NEW], SHELF.get(problems[NEW], job.source)
    result = replace(
        blank, variant=chosen.name, settings=chosen.settings, kernel_sha=plans[NEW].sha
    )
    one, other, *_ = order(job)
    with ExitStack() as stack:
        first = Bench(device, plans[one], prepared.storages, stack)
        benches = {one: first, other: first.other(plans[other], stack)}
        device.quiet()
        arms = {}
        for name, bench in benches.items():
            judged = check(bench, chosen.variant.arithmetic, prepared)
            again = partial(judge_again, bench, judged)
            arms[name] = Arm(bench=bench, verdict=judged.verdict, again=again)
        return timed_if_right(device, arms, job, result, stack)


def timed_if_right(
    device: Computer[P, B],
    arms: Mapping[str, Arm[P, B]],
    job: Job,
    result: Result,
    stack: ExitStack,
) -> Result:
    """The result with the verdict on both arms, and their timings if both are right."""
    verdict = _verdict({name: arm.verdict for name, arm in arms.items()})
    if verdict.passed:
        with SHELF.quiet():
            timed = time_pair(device, arms, job, stack)
        verdict = timed.verdict
        result = replace(result, timings=timed.timings, telemetry=timed.telemetry)
    outcome = Outcome.PASSED if verdict.passed else Outcome.WRONG
    return replace(result, outcome=outcome, reason=_reason(verdict), verdict=verdict)


def order(job: Job) -> tuple[str, str, str, str]:
    """The arms' turns; the first two are the order in which they are set up."""
    return (NEW, OLD, OLD, NEW) if job.new_first else (OLD, NEW, NEW, OLD)


def _posed(bundles: Mapping[str, Bundle], job: Job) -> Mapping[str, Problem]:
    """The case as each bundle declares it: on the same arrays, or they cannot be compared."""
    found = {}
    for name, bundle in bundles.items():
        try:
            found[name] = posed(bundle, job.case)
        except NotDeclared as error:
            raise Unsupported(f"{name}: {error}") from error
    old, new = (found[name].kernel.bindings for name in ARMS)
    if old != new:
        raise Unsupported(f"the old bundle declares other arrays of {job.case} than the new one")
    return found


def _planned(
    device: Computer[P, B], name: str, bundle: Bundle, chosen: Choice, *, checked: bool
) -> LaunchPlan:
    """How a bundle does a problem; one of other times may not have the code that is asked for."""
    try:
        return plan(bundle, chosen, device.facts, checked=checked)
    except UnknownName as error:
        raise Unsupported(f"{name}: {error}") from error


def _verdict(verdicts: Mapping[str, Verdict]) -> Verdict:
    """The verdict on the new arm, or on the one that is wrong; of both, with both reasons."""
    wrong = [arm for arm in ARMS if arm in verdicts and not verdicts[arm].passed]
    if not wrong:
        return verdicts[NEW]
    found = replace(verdicts[wrong[-1]], wrong_arm=WrongArm.of(wrong))
    if len(wrong) == 1:
        return found
    return replace(found, reason="; ".join(f"{arm}: {verdicts[arm].reason}" for arm in wrong))


def _reason(verdict: Verdict) -> str:
    """Why a pair is wrong, in words that name the arm."""
    if verdict.wrong_arm in (WrongArm.OLD, WrongArm.NEW):
        return f"{verdict.wrong_arm}: {verdict.reason}"
    return verdict.reason


def time_pair(
    device: Computer[P, B], arms: Mapping[str, Arm[P, B]], job: Job, stack: ExitStack
) -> Timed:
    """Timings of both arms, which were judged right, and the verdict after them.

    Both put as many launches into a sample, and are warm before the first visit.
    """
    whole = SampleBounds(seconds=job.measure_seconds / len(ARMS), noise=job.noise)
    warm = {name: _launch_seconds(device, arm.bench, whole) for name, arm in arms.items()}
    seconds = min(warm.values())
    sets = _sets(device, arms[OLD].bench, job.metric, seconds, whole, stack)
    visitors = {
        name: _visitor(device, arm.bench, sets, job.metric, seconds, whole, stack)
        for name, arm in arms.items()
    }
    rounds = _rounds(device, sets, max(warm.values()), whole)
    bounds = replace(whole, seconds=whole.seconds / rounds)
    visits: dict[str, list[Visit]] = {name: [] for name in arms}
    readings: Mapping[str, float] = {}
    turns = order(job)
    for name in turns * (rounds - 1):
        visits[name].append(visitors[name].visit(bounds))
    for name in turns:  # the last round's outputs speak for all
        bench, visitor = arms[name].bench, visitors[name]
        for buffers in sets.sets:
            bench.renew(buffers, POISON_A)
        visit = visitor.visit(bounds)
        readings = telemetry.read(device.facts, device.pci_address)  # while the clocks still are up
        used = sets.sets[: len(visit.samples) * visitor.launches]
        verdict = arms[name].again(used)
        if not verdict.passed:
            return Timed(timings=(), verdict=_verdict({name: verdict}), telemetry=readings)
        visits[name].append(visit)
    timings = [visitors[name].summed_up(name, visits[name], sets.warnings) for name in ARMS]
    verdict = arms[NEW].verdict
    return Timed(timings=tuple(timings), verdict=verdict, telemetry=readings)


def _launch_seconds(device: Computer[P, B], bench: Timeable[P, B], bounds: SampleBounds) -> float:
    return warmed(device, bench.work, bench.buffers, bench.seconds, bounds)


def _rounds(device: Computer[P, B], sets: Rotation[B], seconds: float, bounds: SampleBounds) -> int:
    """How often to go through the order, by what a launch of the slower arm takes."""
    if device.facts.type != "cpu":
        return 1
    least = seconds * max(_LEAST_SAMPLES * sets.launches, len(sets.sets))  # of a visit
    return max(1, min(CPU_ROUNDS, int(bounds.seconds / least)))


def _sets(
    device: Computer[P, B],
    bench: Timeable[P, B],
    metric: str,
    seconds: float,
    bounds: SampleBounds,
    stack: ExitStack,
) -> Rotation[B]:
    """The buffers that launches go round in: hot ones always take the same."""
    launches = launches_a_sample(device, seconds, bounds)
    if metric == "cold":
        return rotation(device, bench.buffers, bench.is_poisoned, launches, stack)
    return Rotation(sets=[bench.buffers], launches=launches)


def _visitor(
    device: Computer[P, B],
    bench: Timeable[P, B],
    sets: Rotation[B],
    metric: str,
    seconds: float,
    bounds: SampleBounds,
    stack: ExitStack,
) -> Visitor[P, B]:
    if metric == "cold":
        return cold_visitor(device, bench.work, sets, seconds, stack)
    return hot_visitor(device, bench.work, bench.buffers, seconds, bounds, stack)
