"""The arms of a pair visited in turns, each judged again after its last visits.

The order is old, new, new, old, or new, old, old, new. On a CPU driver it is gone through several
times. What a visit shall bring is poisoned before each visit of the last round, so that no arm is
credited with what the other left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from vkbench.job import Job, pair_of
from vkbench.result import ARMS, Side, Timing, Verdict, WrongArm
from vkbench_worker.phases import phase
from vkbench_worker.runtime.device import Device
from vkbench_worker.timing import telemetry
from vkbench_worker.timing.measure import SampleBounds, Visit, Visitor
from vkbench_worker.timing.summary import Timed

# A CPU is shared, and what others do there lasts longer than a visit: of equal code the ratios of
# pairs were 16 % apart in one round and 2 to 5 % in five, in the same time. On a GPU each visit has
# to wait for the clock.
CPU_ROUNDS: Final = 5
LEAST_SAMPLES: Final = 5  # that a visit has time for, or there are fewer rounds


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """An arm that was judged right, ready to be visited."""

    visitor: Visitor
    poison: Callable[[], None]  # overwrites what a visit shall bring
    again: Callable[[Visit], Verdict]  # on what that visit brought
    summed_up: Callable[[Sequence[Visit]], Timing]


def rounds_of(device: Device, visit_seconds: float, bounds: SampleBounds) -> int:
    """How often to go through the order, where a visit of the slower arm takes so long at least."""
    if device.facts.type != "cpu":
        return 1
    return max(1, min(CPU_ROUNDS, int(bounds.seconds / visit_seconds)))


def in_turns(
    device: Device,
    entrants: Mapping[str, Entrant],
    turns: Sequence[str],
    rounds: int,
    whole: SampleBounds,
) -> Timed:
    """Timings of both arms in so many rounds of their turns, and the verdict after them.

    `whole` bounds the samples of one arm in a turn of all rounds.
    """
    bounds = replace(whole, seconds=whole.seconds / rounds)
    visits: dict[str, list[Visit]] = {name: [] for name in entrants}
    verdicts: dict[str, Verdict] = {}
    readings: Mapping[str, float] = {}
    for name in [*turns] * (rounds - 1):
        with phase(name):
            visits[name].append(entrants[name].visitor.visit(bounds))
    for name in turns:  # the last round's outputs speak for all
        with phase("sets"):
            entrants[name].poison()
        with phase(name):
            visit = entrants[name].visitor.visit(bounds)
        with phase("readings"):  # while the clocks still are up
            readings = telemetry.read(device.facts, device.pci_address)
        with phase("judging"):
            verdicts[name] = entrants[name].again(visit)
        if not verdicts[name].passed:
            verdict = blamed_verdict({name: verdicts[name]})
            return Timed(timings=(), verdict=verdict, telemetry=readings)
        visits[name].append(visit)
    timings = tuple(
        replace(entrants[name].summed_up(visits[name]), side=Side(name)) for name in ARMS
    )
    return Timed(timings=timings, verdict=verdicts[Side.NEW], telemetry=readings)


def blamed_verdict(verdicts: Mapping[str, Verdict]) -> Verdict:
    """The verdict on the new arm, or on the one that is wrong; of both, with both reasons."""
    wrong = [arm for arm in ARMS if arm in verdicts and not verdicts[arm].passed]
    if not wrong:
        return verdicts[Side.NEW]
    verdict = replace(verdicts[wrong[-1]], wrong_arm=WrongArm.of(wrong))
    if len(wrong) == 1:
        return verdict
    return replace(verdict, reason="; ".join(f"{arm}: {verdicts[arm].reason}" for arm in wrong))


def order(job: Job) -> tuple[str, str, str, str]:
    """The arms' turns; the first two are the order in which they are set up."""
    return (
        (Side.NEW, Side.OLD, Side.OLD, Side.NEW)
        if pair_of(job).new_first
        else (Side.OLD, Side.NEW, Side.NEW, Side.OLD)
    )


def reason_of(verdict: Verdict) -> str:
    """Why a pair is wrong, in words that name the arm."""
    if verdict.wrong_arm in (WrongArm.OLD, WrongArm.NEW):
        return f"{verdict.wrong_arm}: {verdict.reason}"
    return verdict.reason
