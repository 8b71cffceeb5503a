"""What a comparison finds: pairs of the same work, verdicts that changed, and means of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from math import fsum, log
from typing import Final, NamedTuple

from vkbench.job import JobState
from vkbench_detection.compare.device_histories import DeviceHistory
from vkbench_detection.compare.evidence import is_vague, ratio_of
from vkbench_detection.compare.references import Reference
from vkbench_detection.compare.sides import Side
from vkbench_detection.statistics.means import (
    LEAST_RUNS,
    DaySpread,
    mean_of_days,
    mean_of_devices,
    mean_without,
)
from vkbench_detection.statistics.pairs import LOOKS, PairVerdict, judge
from vkbench_detection.statistics.ratios import Mean, Ratio, of_values
from vkbench_detection.statistics.tails import Tails

NO_HISTORY: Final = f"no interval: fewer than {LEAST_RUNS} other runs of the same software on"


class Place(NamedTuple):
    """A device's key, name and host."""

    key: str
    name: str
    host: str


class Named(NamedTuple):
    """Which work it is, and on which device of each side: mostly the same one."""

    old: Place
    new: Place
    case_name: str
    mode: str
    variant: str  # asked for

    @property
    def device(self) -> str:
        """The device's key; "old → new" of two."""
        return self._of_both(self.old.key, self.new.key)

    @property
    def device_name(self) -> str:
        """The device's name; "old → new" of two."""
        return self._of_both(self.old.name, self.new.name)

    @property
    def host(self) -> str:
        """The device's host; "old → new" of two."""
        return self._of_both(self.old.host, self.new.host)

    def _of_both(self, old: str, new: str) -> str:
        return new if self.old == self.new else f"{old} → {new}"


class Word(StrEnum):
    """What a pair says."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "~"  # no significant change
    FLAGGED = "flagged"  # a side was timed while its device was throttled or off
    TOO_NOISY = "too noisy"  # a side's time is known too badly
    TOO_FEW = "too few"  # nothing says how a side's time scatters


COUNTING = (Word.SLOWER, Word.FASTER, Word.SAME)  # what was compared; nothing is known of others
AVERAGED = (*COUNTING, Word.TOO_FEW)  # what has a ratio and no flag


class Pair(NamedTuple):
    """The same work timed on both sides."""

    work: Named
    metric: str
    old: Side
    new: Side
    quotient: float  # of the medians, new over old: above 1 is slower
    word: Word  # which sums up the comparison
    tails: tuple[Tails, ...] = ()  # of its devices, once they were looked up

    @classmethod
    def of(cls, work: Named, metric: str, old: Side, new: Side) -> Pair:
        """Both sides of a work; those that took turns are judged as a confirmation judges pairs."""
        if not (old.is_in_turns and new.is_in_turns):
            return cls(work, metric, old, new, new.value / old.value, _word_of(old, new))
        judged = judge(old.values, new.values)
        is_changed = judged.verdict in (PairVerdict.REGRESSED, PairVerdict.IMPROVED)
        pair = cls(work, metric, old, new, judged.ratio, Word.SAME)
        if len(new.values) < LOOKS[0].pairs:
            return pair._replace(word=Word.TOO_FEW)
        return pair.as_changed() if is_changed else pair

    def with_sides(self, old: Side, new: Side) -> Pair:
        """The same timings, of which more is known, before chance is weighed."""
        word = self.word if self.is_in_turns else _word_of(old, new)
        return self._replace(old=old, new=new, word=word)

    def as_changed(self) -> Pair:
        """The pair as one that chance hardly explains."""
        return self._replace(word=Word.SLOWER if self.quotient > 1 else Word.FASTER)

    @property
    def is_in_turns(self) -> bool:
        """Whether both sides were timed in pairs with each other."""
        return self.old.is_in_turns and self.new.is_in_turns

    @property
    def ratio(self) -> Ratio | None:
        """The quotient with its interval; of many results by their order. None of noise.

        Of pairs it is theirs: what both sides' runs differ by otherwise widens nothing.
        """
        if self.is_in_turns:
            return of_values(self.old.values, self.new.values)
        if self.old.is_too_noisy or self.new.is_too_noisy:
            return None
        return ratio_of(self.old, self.new, self.tails)

    @property
    def is_slower(self) -> bool:
        """Whether the new side takes longer."""
        return self.word is Word.SLOWER

    @property
    def is_faster(self) -> bool:
        """Whether the new side takes less time."""
        return self.word is Word.FASTER

    @property
    def is_changed(self) -> bool:
        """Whether chance hardly explains how far both sides are apart."""
        return self.word in (Word.SLOWER, Word.FASTER)

    @property
    def share_quotient(self) -> float | None:
        """Shares of the devices' roofs, new over old; None without both."""
        return self.new.roof / self.old.roof if self.new.roof and self.old.roof else None


def _word_of(old: Side, new: Side) -> Word:
    """What is said of two sides, as long as nothing is known to have changed."""
    if old.flag or new.flag:
        return Word.FLAGGED
    if old.is_too_noisy or new.is_too_noisy:
        return Word.TOO_NOISY
    return Word.TOO_FEW if is_vague(old) or is_vague(new) else Word.SAME


@dataclass(frozen=True, kw_only=True)
class ComparedChange:
    """The same work, whose states differ between both sides."""

    work: Named
    old: JobState
    new: JobState
    job: int  # that shows it
    reason: str = ""  # of the new state


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The work that two references share, and how much each has alone."""

    old: Reference
    new: Reference
    changes: tuple[ComparedChange, ...]  # the gravest first
    pairs: tuple[Pair, ...]  # the slowest first
    only_old: int  # pieces of work, finished on one side alone
    only_new: int
    # (device key, old, new): clock policies under which equal work was done
    policies: tuple[tuple[str, str, str], ...]
    is_across: bool  # the sides have results, and no device in common
    old_places: tuple[Place, ...]  # devices that have results there
    new_places: tuple[Place, ...]
    otherwise: int = 0  # cases that both have, though no work: they asked for other variants

    histories: Mapping[str, DeviceHistory] = field(default_factory=dict)  # by device key

    @cached_property
    def words(self) -> Counter[str]:
        """How many of the pairs say what."""
        return Counter(pair.word for pair in self.pairs)

    @cached_property
    def counting(self) -> tuple[Pair, ...]:
        """The pairs that say whether anything changed."""
        return tuple(pair for pair in self.pairs if pair.word in COUNTING)

    @cached_property
    def averaged(self) -> tuple[Pair, ...]:
        """The pairs that the means are of: all that have a ratio and no flag."""
        return tuple(pair for pair in self.pairs if pair.word in AVERAGED)

    @cached_property
    def mean(self) -> Mean | None:
        """Geometric mean of all ratios without a flag, with its interval; None where none does."""
        return self._mean()

    @cached_property
    def share_mean(self) -> Mean | None:
        """Geometric mean of the shares of roofs, new over old, if both devices are calibrated."""
        if not self.is_across:
            return None
        shares = [(pair, share, 1.0) for pair in self.averaged if (share := pair.share_quotient)]
        return mean_of_pairs(shares, self.histories) if shares else None

    @cached_property
    def device_means(self) -> dict[tuple[str, str], Mean]:
        """Geometric mean of each device's ratios, by its key and name; empty for one device."""
        if len(self._by_device) < 2:
            return {}
        return {
            device: mean_of_pairs([(pair, pair.quotient, 1.0) for pair in pairs], self.histories)
            for device, pairs in self._by_device.items()
        }

    @cached_property
    def fleet_mean(self) -> Mean | None:
        """Mean of the devices' means: a device with many cases weighs no more than another."""
        return self._mean(weighted=False) if self.device_means else None

    @cached_property
    def _by_device(self) -> dict[tuple[str, str], list[Pair]]:
        by_places: dict[tuple[Place, Place], list[Pair]] = {}
        for pair in self.averaged:
            by_places.setdefault((pair.work.old, pair.work.new), []).append(pair)
        return {
            (pairs[0].work.device, pairs[0].work.device_name): pairs for pairs in by_places.values()
        }

    def _mean(self, *, weighted: bool = True) -> Mean | None:
        devices = list(self._by_device.values())
        if not devices:
            return None
        if len(devices) > 1 and not self.is_across:
            ratios = [[pair.quotient for pair in pairs] for pairs in devices]
            return mean_of_devices(ratios, weighted=weighted)
        return mean_of_pairs(
            [
                (pair, pair.quotient, 1.0 if weighted else 1 / len(pairs))
                for pairs in devices
                for pair in pairs
            ],
            self.histories,
        )


def mean_of_pairs(
    weighted: Sequence[tuple[Pair, float, float]], histories: Mapping[str, DeviceHistory]
) -> Mean:
    """The mean of ratios of pairs, each with its weight, by the days of their devices."""
    total = fsum(weight for *_, weight in weighted)
    middle = fsum(weight * log(ratio) for _, ratio, weight in weighted) / total
    # of thousands of pairs most are alike: so many results a side, on these devices
    alike = Counter(
        (pair.work.old.key, pair.work.new.key, len(pair.old.values), len(pair.new.values), weight)
        for pair, _, weight in weighted
    )
    shares: dict[tuple[str, bool], float] = {}
    results: dict[tuple[str, bool], Counter[int]] = {}
    for (*keys, old_results, new_results, weight), number in alike.items():
        for side in zip(keys, (False, True), strict=True):
            shares[side] = shares.get(side, 0.0) + number * weight / total
            counted = results.setdefault(side, Counter())
            counted[new_results if side[1] else old_results] += number
    variances: dict[str, float] = {}
    spreads: dict[str, DaySpread] = {}
    for (key, is_new), share in shares.items():
        day = histories[key].day if key in histories else None
        if day is None:
            return mean_without(middle, len(weighted), f"{NO_HISTORY} {key}")
        spreads[key] = day
        variance = share**2 * day.variance(results[key, is_new])
        variances[key] = variances.get(key, 0.0) + variance
    return mean_of_days(
        middle,
        len(weighted),
        [(variance, spreads[key].freedom) for key, variance in variances.items()],
    )
