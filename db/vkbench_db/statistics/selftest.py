"""The detector on trial: the screen and the pairs that production has, on noise that is known.

Streams without a change tell the false alarms; the same screen states, continued with every change
in both directions, tell what is found after how many results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median

import numpy as np

from vkbench_db.statistics import pairs, screen, synthetic
from vkbench_db.statistics.pairs import Decision, Verdict
from vkbench_db.statistics.ratios import Floats
from vkbench_db.statistics.screen import Alarm, Direction, State
from vkbench_db.statistics.synthetic import KINDS, Noise

CHANGES = (0.02, 0.03, 0.05, 0.10)
QUIET_LENGTH = 250  # results of a stream without a change
BEFORE = 80  # results before a change
AFTER = 20  # results within which it should be found
CONFIRMED = {Verdict.REGRESSED: Direction.SLOWER, Verdict.IMPROVED: Direction.FASTER}

FALSE_PER_1000 = 0.2  # confirmed, at most
EXEMPT = ("AR(1) 2 %",)  # its false alarms are told and not limited


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A recall that must be reached, in either direction."""

    noise: str
    change: float
    within: int  # results
    recall: float


RECALLS = (
    Wanted(noise="gauss 1 %", change=0.03, within=10, recall=0.95),
    Wanted(noise="gauss 2 %", change=0.05, within=10, recall=0.95),
    Wanted(noise="gauss 2 %", change=0.10, within=1, recall=0.90),
)


@dataclass(frozen=True, kw_only=True)
class Quiet:
    """What a noise does where nothing changes."""

    noise: str
    results: int
    alarms: int
    confirmed: int  # all of them false
    ambiguous: int
    jobs: int  # that the pairs took

    def per_1000(self, count: int) -> float:
        """So many of all results, in a thousand."""
        return 1000 * count / self.results

    @property
    def is_met(self) -> bool | None:
        """Whether false alarms are few enough; None where nothing is asked."""
        if self.noise in EXEMPT:
            return None
        return self.per_1000(self.confirmed) <= FALSE_PER_1000


@dataclass(frozen=True, kw_only=True)
class Found:
    """How soon a change is found in a noise."""

    noise: str
    change: float
    direction: Direction
    delays: tuple[int | None, ...]  # results until it was, 1 the first; None: not within 20

    def recall(self, within: int) -> float:
        """Share of streams in which it was found within so many results."""
        return sum(d is not None and d <= within for d in self.delays) / len(self.delays)

    @property
    def delay(self) -> float | None:
        """Median of those found."""
        found = [delay for delay in self.delays if delay is not None]
        return median(found) if found else None

    @property
    def wanted(self) -> Wanted | None:
        """What is asked of this noise and change."""
        asked = (w for w in RECALLS if (w.noise, w.change) == (self.noise, self.change))
        return next(asked, None)

    @property
    def is_met(self) -> bool | None:
        """Whether enough was found soon enough; None where nothing is asked."""
        wanted = self.wanted
        return self.recall(wanted.within) >= wanted.recall if wanted else None


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that was tried."""

    quiet: tuple[Quiet, ...]
    found: tuple[Found, ...]

    @property
    def verdicts(self) -> list[bool]:
        """Of each target, whether it is met."""
        asked = [row.is_met for row in self.quiet] + [row.is_met for row in self.found]
        return [met for met in asked if met is not None]


def run(
    *,
    streams: int,
    seed: int,
    kinds: Sequence[Noise] = KINDS,
    told: Callable[[int, str], object] = lambda done, words: None,
) -> Report:
    """Try every kind of noise; `told` hears how many are done and which is next."""
    quiet: list[Quiet] = []
    found: list[Found] = []
    for number, noise in enumerate(kinds):
        told(number, noise.name)
        rng = np.random.default_rng((seed, number))
        quiet.append(_quiet(noise, rng, streams))
        found += _found(noise, rng, streams)
    return Report(quiet=tuple(quiet), found=tuple(found))


def confirm(
    noise: Noise, rng: np.random.Generator, change: float, direction: Direction
) -> Decision:
    """Measure pairs until they decide; `change` is the true one, a logarithm."""
    looks = pairs.LOOKS
    old, new = synthetic.pairs(noise, rng, looks[-1].pairs)
    before, after = np.exp(old).tolist(), np.exp(new + change).tolist()
    wanted = looks[0].pairs
    while True:
        decision = pairs.decide(before[:wanted], after[:wanted], direction=direction, looks=looks)
        if decision.is_final:
            return decision
        wanted = decision.next_look


def _quiet(noise: Noise, rng: np.random.Generator, streams: int) -> Quiet:
    decisions: list[Decision] = []
    for stream in synthetic.series(noise, rng, streams, QUIET_LENGTH):
        decisions += _watched(noise, rng, stream)[1]
    verdicts = [decision.verdict for decision in decisions]
    return Quiet(
        noise=noise.name,
        results=streams * QUIET_LENGTH,
        alarms=len(decisions),
        confirmed=sum(verdict in CONFIRMED for verdict in verdicts),
        ambiguous=verdicts.count(Verdict.AMBIGUOUS),
        jobs=sum(2 * decision.pairs for decision in decisions),
    )


def _watched(
    noise: Noise, rng: np.random.Generator, stream: Floats
) -> tuple[State, list[Decision]]:
    """Screen results in which nothing changes, and settle every alarm."""
    state = State()
    decisions: list[Decision] = []
    for value in stream.tolist():
        state, alarm = screen.step(state, value)
        if alarm:
            decisions.append(confirm(noise, rng, 0.0, alarm.direction))
            state = _settled(state, alarm, decisions[-1])
    return state, decisions


def _settled(state: State, alarm: Alarm, decision: Decision) -> State:
    if decision.verdict in CONFIRMED:
        return screen.changed(state, alarm.since)
    return screen.dismissed(state)


def _found(noise: Noise, rng: np.random.Generator, streams: int) -> Iterable[Found]:
    """Every stream is screened up to the change once, and then goes on with each of them."""
    tried = [(change, direction) for change in CHANGES for direction in Direction]
    delays: dict[tuple[float, Direction], list[int | None]] = {each: [] for each in tried}
    for stream in synthetic.series(noise, rng, streams, BEFORE + AFTER):
        state, _ = _watched(noise, rng, stream[:BEFORE])
        for (change, direction), seen in delays.items():
            shift = log(1 + change) if direction is Direction.SLOWER else -log(1 + change)
            seen.append(_delay(noise, rng, state, stream[BEFORE:], shift))
    for (change, direction), seen in delays.items():
        yield Found(noise=noise.name, change=change, direction=direction, delays=tuple(seen))


def _delay(
    noise: Noise, rng: np.random.Generator, state: State, after: Floats, shift: float
) -> int | None:
    """With which result after the change it is confirmed."""
    truth = Direction.SLOWER if exp(shift) > 1 else Direction.FASTER
    for number, value in enumerate((after + shift).tolist(), start=1):
        state, alarm = screen.step(state, value)
        if not alarm:
            continue
        decision = confirm(noise, rng, shift, alarm.direction)
        if CONFIRMED.get(decision.verdict) is truth:
            return number
        state = _settled(state, alarm, decision)
    return None
