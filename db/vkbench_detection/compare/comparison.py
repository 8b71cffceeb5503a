"""Two sets of results side by side: what became wrong or right, and whose times truly changed.

Sides that share a device are compared on it. Sides that share none are hardware beside hardware:
each device of the old side beside each of the new one, by plain times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection, select

from vkbench.errors import UsageError
from vkbench.job import SEVERITY, JobState
from vkbench_db import schema
from vkbench_db.batches import batches
from vkbench_detection.compare.evidence import ratio_of
from vkbench_detection.compare.references import Reference
from vkbench_detection.compare.result_sets import ComparedWork, Key, Side, works
from vkbench_detection.series.profiles import device_sigmas
from vkbench_detection.statistics import ratios
from vkbench_detection.statistics.discoveries import believed
from vkbench_detection.statistics.ratios import FLOOR, Mean, Ratio

DENSE = 4  # cases in a range, for each that is wanted

_Both: TypeAlias = Sequence[tuple[Key, Key, ComparedWork, ComparedWork]]  # old and new side


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
        """The device's name, likewise."""
        return self._of_both(self.old.name, self.new.name)

    @property
    def host(self) -> str:
        """The device's host, likewise."""
        return self._of_both(self.old.host, self.new.host)

    def _of_both(self, old: str, new: str) -> str:
        return new if self.old == self.new else f"{old} → {new}"


class Pair(NamedTuple):
    """The same work timed on both sides."""

    work: Named
    metric: str
    old: Side
    new: Side
    quotient: float  # of the medians, new over old: above 1 is slower
    is_changed: bool = False  # chance is unlikely, among so many, and it is worth a word

    @property
    def ratio(self) -> Ratio:
        """The quotient with its interval; of many results by their order."""
        return ratio_of(self.old, self.new)

    @property
    def is_flagged(self) -> bool:
        """Whether a side says little: it was timed while its device was throttled or off."""
        return bool(self.old.flag or self.new.flag)

    @property
    def is_slower(self) -> bool:
        """Whether the new side takes longer."""
        return self.is_changed and self.quotient > 1

    @property
    def is_faster(self) -> bool:
        """Whether the new side takes less time."""
        return self.is_changed and self.quotient < 1

    @property
    def share_quotient(self) -> float | None:
        """Shares of the devices' roofs, new over old; None without both."""
        return self.new.roof / self.old.roof if self.new.roof and self.old.roof else None


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

    @cached_property
    def counting(self) -> tuple[Pair, ...]:
        """The pairs without a flag, which the means are of."""
        return tuple(pair for pair in self.pairs if not pair.is_flagged)

    @cached_property
    def mean(self) -> Mean | None:
        """Geometric mean of all ratios that count, with its interval; None where none does."""
        return _mean([(pair.work.case_name, pair.quotient) for pair in self.counting])

    @cached_property
    def share_mean(self) -> Mean | None:
        """The same of the shares of roofs, new over old, where both devices are calibrated."""
        if not self.is_across:
            return None
        found = ((pair.work.case_name, pair.share_quotient) for pair in self.counting)
        return _mean([(case, share) for case, share in found if share])

    @cached_property
    def device_means(self) -> dict[tuple[str, str], Mean]:
        """The same of each device, by its key and name; empty where there is one alone."""
        grouped: dict[tuple[str, str], list[tuple[str, float]]] = {}
        for pair in self.counting:
            device = pair.work.device, pair.work.device_name
            grouped.setdefault(device, []).append((pair.work.case_name, pair.quotient))
        if len(grouped) < 2:
            return {}
        means = {device: _mean(found) for device, found in grouped.items()}
        return {device: mean for device, mean in means.items() if mean}

    @cached_property
    def fleet_mean(self) -> Mean | None:
        """Of the devices' means: one with many cases weighs no more than another."""
        return ratios.geometric_mean([mean.value for mean in self.device_means.values()])


def _mean(found: Sequence[tuple[str, float]]) -> Mean | None:
    """The mean of ratios, each with its case: those of one case are no evidence for each other."""
    return ratios.geometric_mean([ratio for _, ratio in found], alike=[case for case, _ in found])


def compare(
    tx: Connection, old: Reference, new: Reference, *, metrics: Sequence[str] = ()
) -> Comparison:
    """Pair the results of two references by case, mode, variant and metric, and by device."""
    if old.device and old.device == new.device:
        raise UsageError(f"both sides are device {old.device}: compare its runs, or two devices")
    before, after = (works(tx, each, metrics=metrics) for each in (old, new))
    is_across = _is_across(before, after)
    both = _on_any_two(before, after) if is_across else _on_the_same(before, after)
    named = _Names.load(tx, [key for key, *_ in both])
    return Comparison(
        old=old,
        new=new,
        changes=tuple(sorted(_changes(tx, named, both), key=_gravity)),
        pairs=tuple(_pairs(tx, named, both)),
        only_old=len(before) - len({key for key, *_ in both}),
        only_new=len(after) - len({key for _, key, *_ in both}),
        policies=tuple(_policies(tx, named, both)),
        is_across=is_across,
        old_places=named.places(before),
        new_places=named.places(after),
        otherwise=0 if both else len(_cases(before) & _cases(after)),
    )


def _cases(side: Iterable[Key]) -> set[tuple[int, str]]:
    return {(case, mode) for _, case, mode, _ in side}


def _is_across(before: Mapping[Key, ComparedWork], after: Mapping[Key, ComparedWork]) -> bool:
    """Whether no device has results on both sides, while both have some."""
    old, new = ({key[0] for key in side} for side in (before, after))
    return bool(old and new) and old.isdisjoint(new)


def _on_the_same(before: Mapping[Key, ComparedWork], after: Mapping[Key, ComparedWork]) -> _Both:
    return [(key, key, work, after[key]) for key, work in before.items() if key in after]


def _on_any_two(before: Mapping[Key, ComparedWork], after: Mapping[Key, ComparedWork]) -> _Both:
    """Work of each device beside the same work of each device of the other side."""
    others: dict[tuple[int, str, str], list[Key]] = {}
    for key in after:
        others.setdefault(key[1:], []).append(key)
    return [
        (key, other, work, after[other])
        for key, work in before.items()
        for other in others.get(key[1:], ())
    ]


def with_noise(tx: Connection, pairs: Sequence[Pair]) -> list[Pair]:
    """The same pairs, whose sides know the noise of their series."""
    series = {side.series for pair in pairs for side in (pair.old, pair.new)}
    sigmas: dict[int | None, float | None] = {}
    for page in batches(sorted(number for number in series if number is not None)):
        sigmas |= dict(
            tx.execute(
                select(schema.series.c.id, schema.series.c.sigma).where(
                    schema.series.c.id.in_(page)
                )
            ).all()
        )
    is_known = all(sigmas.get(number) for number in series)
    usual = {} if is_known else device_sigmas(tx)

    def known(side: Side, device: str) -> Side:
        return side._replace(sigma=sigmas.get(side.series), device_sigma=usual.get(device))

    return [
        pair._replace(
            old=known(pair.old, pair.work.old.key), new=known(pair.new, pair.work.new.key)
        )
        for pair in pairs
    ]


@dataclass(frozen=True, kw_only=True)
class _Names:
    """Devices and cases by their numbers."""

    devices: Mapping[int, Place]
    cases: Mapping[int, str]

    @classmethod
    def load(cls, tx: Connection, keys: Sequence[Key]) -> _Names:
        device, case = schema.device.c, schema.kernel_case.c
        rows = tx.execute(
            select(device.id, device.key, device.name, schema.host.c.name).join(
                schema.host, schema.host.c.id == device.host_id
            )
        )
        wanted = sorted({key[1] for key in keys})
        cases: dict[int, str] = {}
        for page in batches(wanted):
            # a range where it is nearly one: thousands of parameters cost more than what they save
            is_dense = page[-1] - page[0] < DENSE * len(page)
            where = case.id.between(page[0], page[-1]) if is_dense else case.id.in_(page)
            cases |= dict(tx.execute(select(case.id, case.name).where(where)).all())
        return cls(devices={number: Place(*place) for number, *place in rows}, cases=cases)

    def of(self, old: Key, new: Key) -> Named:
        """Which work that is."""
        _, case, mode, variant = old
        return Named(self.devices[old[0]], self.devices[new[0]], self.cases[case], mode, variant)

    def places(self, side: Iterable[Key]) -> tuple[Place, ...]:
        """The devices of a side's work."""
        return tuple(sorted(self.devices[number] for number in {key[0] for key in side}))


def _pairs(tx: Connection, named: _Names, works: _Both) -> list[Pair]:
    pairs: list[Pair] = []
    for old_key, new_key, before, after in works:
        work = named.of(old_key, new_key)
        for metric, old in before.sides.items():
            new = after.sides.get(metric)
            if new:
                pairs.append(Pair(work, metric, old, new, new.value / old.value))
    pairs.sort(key=_slowness)
    return _judged(tx, pairs)


def _judged(tx: Connection, pairs: Sequence[Pair]) -> list[Pair]:
    """Of thousands some look changed by chance. One too small to matter is not one that does."""
    judged = list(pairs)
    places = [place for place, pair in enumerate(pairs) if _is_large(pair)]
    if not places:
        return judged
    p_values = [1.0] * len(pairs)
    for place, pair in zip(places, with_noise(tx, [pairs[at] for at in places]), strict=True):
        judged[place], p_values[place] = pair, pair.ratio.p
    answers = believed(p_values)
    for place in places:
        if answers[place]:
            judged[place] = judged[place]._replace(is_changed=True)
    return judged


def _is_large(pair: Pair) -> bool:
    return not pair.is_flagged and not 1 / (1 + FLOOR) < pair.quotient < 1 + FLOOR


def _changes(tx: Connection, named: _Names, works: _Both) -> list[ComparedChange]:
    changed = [each for each in works if each[2].state != each[3].state]
    reasons: dict[int, str] = {}
    for page in batches(sorted({new.job for *_, new in changed})):
        asked = select(schema.job.c.id, schema.job.c.reason).where(schema.job.c.id.in_(page))
        reasons |= dict(tx.execute(asked).all())
    return [
        ComparedChange(
            work=named.of(old_key, new_key),
            old=JobState(old.state),
            new=JobState(new.state),
            job=new.job,
            reason=reasons[new.job],
        )
        for old_key, new_key, old, new in changed
    ]


def _policies(tx: Connection, named: _Names, works: _Both) -> list[tuple[str, str, str]]:
    """Where equal work was timed under unlike clock policies: device key, old, new."""
    timed = {
        (old_key[0], new_key[0], old.environments, new.environments)
        for old_key, new_key, old, new in works
        if old.sides and new.sides
    }
    hashes = {name for _, _, *sides in timed for side in sides for name in side}
    rows = tx.execute(
        select(schema.environment.c.hash, schema.environment.c.facts).where(
            schema.environment.c.hash.in_(hashes)
        )
    )
    policy = {name: facts.get("clock_policy", "default") for name, facts in rows}
    unlike: dict[tuple[str, str, str], None] = {}
    for one, other, old, new in timed:
        said = [", ".join(sorted({policy[n] for n in side if n in policy})) for side in (old, new)]
        if said[0] != said[1]:
            keys = dict.fromkeys(named.devices[device].key for device in (one, other))
            unlike[(" → ".join(keys), said[0], said[1])] = None
    return sorted(unlike)


def _slowness(pair: Pair) -> tuple[float, str, str]:
    return -pair.quotient, pair.work.case_name, pair.metric


def _gravity(change: ComparedChange) -> tuple[int, int, str]:
    return SEVERITY.index(change.new), -SEVERITY.index(change.old), change.work.case_name
