"""A try-out: two arms timed in pairs on many cases, the verdict on each, and what to measure next.

Every case gets a pair. Those that seem to have changed then get as many as can decide, the few
that seem slowest before all others: the time may end at any pair, and a few certain cases say more
than many that got a pair more. The rest gets a second pair. Then the looks go on until they decide
each case, and what time is left goes to those that look alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from math import isfinite, log
from statistics import median

from sqlalchemy import Connection

from vkbench.job import JobState
from vkbench.result import Side
from vkbench_db.ask.devices.names import NamedDevice, named_devices
from vkbench_detection.confirm.pairs import BROKEN_OFF, PairedCase, PairResults, results_by_case
from vkbench_detection.statistics.pairs import (
    FEWEST_PAIRS,
    LEAST_CHANGE,
    LOOKS,
    PairJudgement,
    PairVerdict,
    judge,
)
from vkbench_detection.statistics.ratios import Mean, geometric_mean

FIRST_PAIRS = 2  # of each case
DECIDED_TOGETHER = 8  # cases of a device that get their pairs in turns, before others get theirs
MUCH_SLOWER = 1.05  # what a summary counts as such
_TOLD = log(1 + LEAST_CHANGE)


class TryVerdict(StrEnum):
    """What a try-out says of a case, the gravest first."""

    WRONG = "wrong"  # the new arm's outputs are
    FAILED = "failed"  # the new arm crashes, or runs into its limit
    SLOWER = "slower"
    UNDECIDED = "undecided"  # it may have changed, or was being timed, as the time was over
    FASTER = "faster"
    FIXED = "fixed"  # the old arm's outputs are wrong, or it fails
    SAME = "same"
    NEITHER = "neither"  # both arms are wrong
    SKIPPED = "skipped"  # with the reason: the program cannot do the case
    UNREACHED = "not reached"  # the time was over before


TIMED = (TryVerdict.SLOWER, TryVerdict.UNDECIDED, TryVerdict.FASTER, TryVerdict.SAME)


@dataclass(frozen=True, kw_only=True)
class TriedCase:
    """A case on a device, and what its pairs say so far."""

    device: NamedDevice
    case: str
    verdict: TryVerdict
    judgement: PairJudgement | None = None  # of timings; None without a pair of them
    old_seconds: float | None = None  # medians
    new_seconds: float | None = None
    note: str = ""
    history: tuple[float, ...] = ()  # new over old of each pair, in their order

    @property
    def pairs(self) -> int:
        """How many pairs were timed."""
        return self.judgement.pairs if self.judgement else 0

    @property
    def ratio(self) -> float | None:
        """New over old, above 1 slower; None where nothing right was timed."""
        is_timed = self.judgement and self.verdict in TIMED
        return self.judgement.ratio if self.judgement and is_timed else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The 95 % interval of the ratio, where there are pairs enough for one."""
        if self.ratio is None or self.judgement is None or not isfinite(self.judgement.high):
            return None
        return self.judgement.low, self.judgement.high


@dataclass(frozen=True, kw_only=True)
class Tryout:
    """All cases of a try-out, the gravest first."""

    old: str  # names of both arms, as people call them
    new: str
    cases: tuple[TriedCase, ...]

    @cached_property
    def counts(self) -> Counter[TryVerdict]:
        """How many cases have which verdict."""
        return Counter(tried.verdict for tried in self.cases)

    @property
    def changed(self) -> tuple[TriedCase, ...]:
        """The cases of which there is more to say than that nothing changed."""
        silent = (TryVerdict.SAME, TryVerdict.SKIPPED, TryVerdict.UNREACHED)
        return tuple(tried for tried in self.cases if tried.verdict not in silent)

    @cached_property
    def timed_cases(self) -> tuple[TriedCase, ...]:
        """The cases that have a ratio, the slowest first."""
        timed = [tried for tried in self.cases if tried.ratio is not None]
        return tuple(sorted(timed, key=lambda tried: -(tried.ratio or 0.0)))

    @cached_property
    def mean(self) -> Mean | None:
        """The geometric mean of all ratios; cases are what is drawn for its interval."""
        return _mean(self.timed_cases)

    @property
    def much_slower(self) -> float:
        """Share of the timed cases that are slower by 5 % or more, and certainly slower."""
        slower = [tried for tried in self.timed_cases if tried.verdict is TryVerdict.SLOWER]
        count = sum((tried.ratio or 0.0) >= MUCH_SLOWER for tried in slower)
        return count / len(self.timed_cases) if self.timed_cases else 0.0

    def by_device(self) -> dict[NamedDevice, Tryout]:
        """The part of each device."""
        devices = dict.fromkeys(tried.device for tried in self.cases)
        return {
            device: replace(self, cases=tuple(t for t in self.cases if t.device == device))
            for device in devices
        }


def tryout_of(tx: Connection, run: int, *, old: str, new: str) -> Tryout:
    """What the pairs of a run say of its cases."""
    by_case = results_by_case(tx, run)
    devices = {device.key: device for device in named_devices(tx)}
    cases = [_judge_case(key.case, devices[key.device], pairs) for key, pairs in by_case.items()]
    order = list(TryVerdict)
    cases.sort(key=lambda tried: (order.index(tried.verdict), -_size(tried), tried.case))
    return Tryout(old=old, new=new, cases=tuple(cases))


def next_round(tx: Connection, run: int) -> list[PairedCase]:
    """The cases of a run to time once more, those that seem to have become slower first."""
    return choose_next(results_by_case(tx, run))


def choose_next(by_case: Mapping[PairedCase, PairResults]) -> list[PairedCase]:
    """The cases to time once more, by what their pairs say so far."""
    able = {key: results for key, results in by_case.items() if _is_able(results)}
    fewer = {key: results for key, results in able.items() if len(results.old) < LOOKS[0].pairs}
    few = [key for key, results in fewer.items() if len(results.old) < FIRST_PAIRS]
    open_cases = [key for key, results in able.items() if _is_open(results)]
    suspects = [key for key in open_cases if len(able[key].old) < FEWEST_PAIRS]
    chosen = suspects or few or open_cases or list(fewer)
    chosen.sort(key=lambda key: -_slowing(able[key]))
    return _first_of_each_device(chosen) if suspects else chosen


def _first_of_each_device(cases: Sequence[PairedCase]) -> list[PairedCase]:
    """As many cases of each device as are decided together, in their order."""
    places = Counter[str]()
    first: list[PairedCase] = []
    for key in cases:
        places[key.device] += 1
        if places[key.device] <= DECIDED_TOGETHER:
            first.append(key)
    return first


def _slowing(results: PairResults) -> float:
    """How much slower the new arm seems to be: a logarithm, below 0 where it seems faster."""
    pairs = zip(results.old, results.new, strict=True)
    return median([log(new / old) for old, new in pairs] or [0.0])


def _is_able(results: PairResults) -> bool:
    """Whether both arms do the case right."""
    return not (results.failed or results.old_wrong or results.new_wrong)


def _is_open(results: PairResults) -> bool:
    """Whether more pairs could say that the case has changed, or has not."""
    if len(results.old) < LOOKS[0].pairs:
        return not _look_alike(results)
    return judge(results.old, results.new).verdict is PairVerdict.MORE


def _look_alike(results: PairResults) -> bool:
    """Whether no pair differs by as much as would be told."""
    pairs = zip(results.old, results.new, strict=True)
    return all(abs(log(new / old)) < _TOLD for old, new in pairs)


def _judge_case(case: str, device: NamedDevice, results: PairResults) -> TriedCase:
    judgement = judge(results.old, results.new) if results.old else None
    verdict, note = _verdict(results, judgement)
    return TriedCase(
        device=device,
        case=case,
        verdict=verdict,
        judgement=judgement,
        old_seconds=median(results.old) if results.old else None,
        new_seconds=median(results.new) if results.new else None,
        note=note,
        history=tuple(new / old for old, new in zip(results.old, results.new, strict=True)),
    )


def _verdict(results: PairResults, judgement: PairJudgement | None) -> tuple[TryVerdict, str]:
    if results.new_wrong and results.old_wrong:
        return TryVerdict.NEITHER, f"both are wrong: {results.new_wrong}"
    if results.new_wrong:
        return TryVerdict.WRONG, results.new_wrong
    if results.old_wrong:
        return TryVerdict.FIXED, f"the old one is wrong: {results.old_wrong}"
    if results.crashed:
        is_old = results.failed.startswith(f"{Side.OLD}: ")
        return (TryVerdict.FIXED if is_old else TryVerdict.FAILED), results.crashed
    if results.skipped:
        return TryVerdict.SKIPPED, results.skipped
    if judgement is None and results.broken_off:
        return TryVerdict.UNDECIDED, BROKEN_OFF
    if judgement is None:
        return TryVerdict.UNREACHED, "" if results.failed == JobState.CANCELLED else results.failed
    match judgement.verdict:
        case PairVerdict.REGRESSED:
            return TryVerdict.SLOWER, ""
        case PairVerdict.IMPROVED:
            return TryVerdict.FASTER, ""
        case PairVerdict.SAME:
            return TryVerdict.SAME, ""
    if results.broken_off:
        return TryVerdict.UNDECIDED, BROKEN_OFF
    return (TryVerdict.SAME if _look_alike(results) else TryVerdict.UNDECIDED), ""


def _size(tried: TriedCase) -> float:
    """How far the ratio is from 1."""
    return abs(log(tried.ratio)) if tried.ratio else 0.0


def _mean(timed: Sequence[TriedCase]) -> Mean | None:
    ratios = [tried.ratio for tried in timed if tried.ratio is not None]
    return geometric_mean(ratios, alike=[tried.case for tried in timed])
