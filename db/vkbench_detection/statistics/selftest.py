"""The detector on trial: the stages that production has, on noise that is known.

Screen and pairs are tried together. Streams without a change tell the false alarms; the same screen
states, continued with every change in both directions, tell what is found after how many results.
The pass over histories is tried alone, since it decides alone where nothing can be measured again:
whole series in which kernels move and nothing changes, and series that a kernel changes near their
end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median

import numpy as np

from vkbench_detection.statistics import pairs, screen, segments, synthetic
from vkbench_detection.statistics.pairs import PairJudgement, PairVerdict
from vkbench_detection.statistics.ratios import Floats
from vkbench_detection.statistics.screen import Alarm, Direction, ScreenState
from vkbench_detection.statistics.segments import LevelShift
from vkbench_detection.statistics.synthetic import KINDS, Noise

CHANGES = (0.02, 0.03, 0.05, 0.10)
QUIET_LENGTH = 250  # results of a stream without a change
BEFORE = 80  # results before a change
AFTER = 20  # results within which it should be found
CONFIRMED = {PairVerdict.REGRESSED: Direction.SLOWER, PairVerdict.IMPROVED: Direction.FASTER}

FALSE_PER_1000 = 0.2  # confirmed, or by history blamed on a kernel, at most

HISTORY_CHANGES = (0.03, 0.05, 0.10, 0.20)
HISTORIES = 5  # a history for so many streams: it costs more
HISTORY_LENGTH = 150  # results of a series that changes
HISTORY_CHANGE = 126  # with this result, as long as half a wave before the end
MOVE_EVERY = 20  # results between kernels that change nothing


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
    Wanted(noise="wave 1 %", change=0.05, within=10, recall=0.90),
    Wanted(noise="wave 1 %", change=0.10, within=10, recall=0.90),
    Wanted(noise="wave 2 %", change=0.05, within=20, recall=0.90),
    Wanted(noise="wave 2 %", change=0.10, within=10, recall=0.90),
    Wanted(noise="walk 2 %", change=0.10, within=10, recall=0.90),
    Wanted(noise="tails 2 %", change=0.05, within=10, recall=0.95),
)


@dataclass(frozen=True, kw_only=True)
class HistoryWanted:
    """What histories must show of a change, in either direction."""

    noise: str
    change: float
    certain: float  # share of series
    told: float  # certain, or ambiguous at least


# Of what differs by less, no history can tell: 3 % lies within the movements of every noise of 2 %,
# 5 % within those of a wave, a walk or results that remember the one before.
HISTORY_WANTED = (
    *(HistoryWanted(noise=noise.name, change=0.20, certain=0.95, told=0.95) for noise in KINDS),
    HistoryWanted(noise="gauss 1 %", change=0.05, certain=0.95, told=0.95),
    HistoryWanted(noise="gauss 2 %", change=0.10, certain=0.95, told=0.95),
    HistoryWanted(noise="tails 2 %", change=0.10, certain=0.90, told=0.95),
    HistoryWanted(noise="wave 1 %", change=0.03, certain=0.30, told=0.85),
    HistoryWanted(noise="wave 1 %", change=0.05, certain=0.90, told=0.95),
    HistoryWanted(noise="wave 1 %", change=0.10, certain=0.95, told=0.95),
    HistoryWanted(noise="wave 2 %", change=0.05, certain=0.0, told=0.70),
    HistoryWanted(noise="wave 2 %", change=0.10, certain=0.90, told=0.95),
    HistoryWanted(noise="walk 2 %", change=0.05, certain=0.30, told=0.70),
    HistoryWanted(noise="walk 2 %", change=0.10, certain=0.90, told=0.95),
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
    def is_met(self) -> bool:
        """Whether false alarms are few enough."""
        return self.per_1000(self.confirmed) <= FALSE_PER_1000


@dataclass(frozen=True, kw_only=True)
class Found:
    """How soon a change is found in a noise."""

    noise: str
    change: float
    direction: Direction
    delays: tuple[int | None, ...]  # results until it was, 1 the first; None: not within 20

    def recall(self, within: int) -> float:
        """Share of streams in which the change was found within a number of results."""
        return sum(d is not None and d <= within for d in self.delays) / len(self.delays)

    @property
    def delay(self) -> float | None:
        """Median of the delays of changes that were found."""
        known = [delay for delay in self.delays if delay is not None]
        return median(known) if known else None

    @property
    def wanted(self) -> Wanted | None:
        """The limit for this noise and change; None where there is none."""
        rows = (w for w in RECALLS if (w.noise, w.change) == (self.noise, self.change))
        return next(rows, None)

    @property
    def is_met(self) -> bool | None:
        """Whether enough was found soon enough; None where nothing is asked."""
        limits = self.wanted
        return self.recall(limits.within) >= limits.recall if limits else None


@dataclass(frozen=True, kw_only=True)
class HistoryQuiet:
    """What the pass over histories makes of a noise where nothing changes."""

    noise: str
    results: int
    certain: int  # changes, all of them false
    blamed: int  # of these, on a kernel that moved there
    ambiguous: int

    def per_1000(self, count: int) -> float:
        """So many of all results, in a thousand."""
        return 1000 * count / self.results

    @property
    def is_met(self) -> bool:
        """Whether kernels are blamed seldom enough."""
        return self.per_1000(self.blamed) <= FALSE_PER_1000


@dataclass(frozen=True, kw_only=True)
class HistoryFound:
    """What the pass over histories makes of a change that a kernel brought."""

    noise: str
    change: float
    series: int
    certain: int  # series in which the kernel is blamed
    ambiguous: int

    @property
    def certain_share(self) -> float:
        """Share of series in which the kernel is blamed."""
        return self.certain / self.series

    @property
    def told_share(self) -> float:
        """Share of series in which people hear of it."""
        return (self.certain + self.ambiguous) / self.series

    @property
    def wanted(self) -> HistoryWanted | None:
        """The limit for this noise and change; None where there is none."""
        rows = (w for w in HISTORY_WANTED if (w.noise, w.change) == (self.noise, self.change))
        return next(rows, None)

    @property
    def is_met(self) -> bool | None:
        """Whether enough was found; None where nothing is asked."""
        limits = self.wanted
        if limits is None:
            return None
        return self.certain_share >= limits.certain and self.told_share >= limits.told


@dataclass(frozen=True, kw_only=True)
class Report:
    """Results of all trials of the detector."""

    quiet: tuple[Quiet, ...]
    found: tuple[Found, ...]
    history_quiet: tuple[HistoryQuiet, ...]
    history_found: tuple[HistoryFound, ...]

    @property
    def verdicts(self) -> list[bool]:
        """Whether each limit is met."""
        false: list[bool | None] = [row.is_met for row in self.quiet]
        false += [row.is_met for row in self.history_quiet]
        verdicts = [row.is_met for row in self.found] + [row.is_met for row in self.history_found]
        return [met for met in (*false, *verdicts) if met is not None]


def run(
    *,
    streams: int,
    seed: int,
    kinds: Sequence[Noise] = KINDS,
    report: Callable[[int, str], object] = lambda done, words: None,
) -> Report:
    """Try every kind of noise; `report` hears how many are done and which is next."""
    quiet: list[Quiet] = []
    rows: list[Found] = []
    history_quiet: list[HistoryQuiet] = []
    history_found: list[HistoryFound] = []
    for number, noise in enumerate(kinds):
        report(number, noise.name)
        rng = np.random.default_rng((seed, number))
        quiet.append(_try_quiet_streams(noise, rng, streams))
        rows += _find_changes(noise, rng, streams)
        histories = max(1, streams // HISTORIES)
        history_quiet.append(_history_quiet(noise, rng, histories))
        history_found += _history_found(noise, rng, histories)
    return Report(
        quiet=tuple(quiet),
        found=tuple(rows),
        history_quiet=tuple(history_quiet),
        history_found=tuple(history_found),
    )


def confirm(
    noise: Noise, rng: np.random.Generator, change: float, direction: Direction
) -> PairJudgement:
    """Measure pairs until they decide; `change` is the true one, a logarithm."""
    looks = pairs.LOOKS
    old, new = synthetic.pairs(noise, rng, looks[-1].pairs)
    before, after = np.exp(old).tolist(), np.exp(new + change).tolist()
    size = looks[0].pairs
    while True:
        judgement = pairs.judge(before[:size], after[:size], direction=direction, looks=looks)
        if judgement.is_final:
            return judgement
        size = judgement.next_look


def _try_quiet_streams(noise: Noise, rng: np.random.Generator, streams: int) -> Quiet:
    judgements: list[PairJudgement] = []
    for stream in synthetic.series(noise, rng, streams, QUIET_LENGTH):
        judgements += _watch_stream(noise, rng, stream)[1]
    verdicts = [judgement.verdict for judgement in judgements]
    return Quiet(
        noise=noise.name,
        results=streams * QUIET_LENGTH,
        alarms=len(judgements),
        confirmed=sum(verdict in CONFIRMED for verdict in verdicts),
        ambiguous=verdicts.count(PairVerdict.AMBIGUOUS),
        jobs=sum(2 * judgement.pairs for judgement in judgements),
    )


def _watch_stream(
    noise: Noise, rng: np.random.Generator, stream: Floats
) -> tuple[ScreenState, list[PairJudgement]]:
    """Screen results in which nothing changes, and settle every alarm."""
    state = ScreenState()
    judgements: list[PairJudgement] = []
    for value in stream.tolist():
        state, alarm = screen.step(state, value)
        if alarm:
            judgements.append(confirm(noise, rng, 0.0, alarm.direction))
            state = _settle_alarm(state, alarm, judgements[-1])
    return state, judgements


def _settle_alarm(state: ScreenState, alarm: Alarm, judgement: PairJudgement) -> ScreenState:
    if judgement.verdict in CONFIRMED:
        return screen.after_change(state, alarm.since)
    return screen.after_dismissal(state)


def _find_changes(noise: Noise, rng: np.random.Generator, streams: int) -> Iterable[Found]:
    """Every stream is screened up to the change once, and then goes on with each of them."""
    tried = [(change, direction) for change in CHANGES for direction in Direction]
    delays: dict[tuple[float, Direction], list[int | None]] = {key: [] for key in tried}
    for stream in synthetic.series(noise, rng, streams, BEFORE + AFTER):
        state, _ = _watch_stream(noise, rng, stream[:BEFORE])
        for (change, direction), seen in delays.items():
            shift = log(1 + change) if direction is Direction.SLOWER else -log(1 + change)
            seen.append(_delay(noise, rng, state, stream[BEFORE:], shift))
    for (change, direction), seen in delays.items():
        yield Found(noise=noise.name, change=change, direction=direction, delays=tuple(seen))


def _delay(
    noise: Noise, rng: np.random.Generator, state: ScreenState, after: Floats, shift: float
) -> int | None:
    """With which result after the change it is confirmed."""
    truth = Direction.SLOWER if exp(shift) > 1 else Direction.FASTER
    for number, value in enumerate((after + shift).tolist(), start=1):
        state, alarm = screen.step(state, value)
        if not alarm:
            continue
        judgement = confirm(noise, rng, shift, alarm.direction)
        if CONFIRMED.get(judgement.verdict) is truth:
            return number
        state = _settle_alarm(state, alarm, judgement)
    return None


def _history_quiet(noise: Noise, rng: np.random.Generator, histories: int) -> HistoryQuiet:
    """Whole series in which every twentieth result has another kernel that changes nothing."""
    moved = range(MOVE_EVERY, segments.LAST, MOVE_EVERY)
    series = synthetic.series(noise, rng, histories, segments.LAST)
    changes = [
        change for values in series for change in segments.find(np.exp(values).tolist(), moved)
    ]
    certain = [change for change in changes if change.is_certain]
    return HistoryQuiet(
        noise=noise.name,
        results=histories * segments.LAST,
        certain=len(certain),
        blamed=sum(any(_is_at(change, at) for at in moved) for change in certain),
        ambiguous=len(changes) - len(certain),
    )


def _history_found(
    noise: Noise, rng: np.random.Generator, histories: int
) -> Iterable[HistoryFound]:
    """Judge the same series with each change; every other series becomes faster."""
    series = synthetic.series(noise, rng, histories, HISTORY_LENGTH)
    signs = np.where(np.arange(histories) % 2, -1.0, 1.0)[:, None]
    for change in HISTORY_CHANGES:
        after = np.arange(HISTORY_LENGTH) >= HISTORY_CHANGE
        values = np.exp(series + signs * log(1 + change) * after)
        answers = [_answer(value.tolist()) for value in values]
        yield HistoryFound(
            noise=noise.name,
            change=change,
            series=histories,
            certain=answers.count(True),
            ambiguous=answers.count(False),
        )


def _answer(values: Sequence[float]) -> bool | None:
    """Whether the change that a kernel brought is certain; None where it is not found."""
    changes = segments.find(values, [HISTORY_CHANGE])
    return next((change.is_certain for change in changes if _is_at(change, HISTORY_CHANGE)), None)


def _is_at(change: LevelShift, place: int) -> bool:
    """Whether what moved at a place explains a change."""
    return abs(change.index - place) <= segments.NEAR
