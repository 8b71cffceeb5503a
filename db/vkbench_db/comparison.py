"""Two sets of results side by side: what became wrong or right, and whose times truly changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection, select

from vkbench.errors import UsageError
from vkbench.job import State
from vkbench_db.batches import batches
from vkbench_db.evidence import ratio_of
from vkbench_db.profiles import device_sigmas
from vkbench_db.references import Kind, Reference
from vkbench_db.statistics import ratios
from vkbench_db.statistics.discoveries import believed
from vkbench_db.statistics.ratios import FLOOR, Mean, Ratio
from vkbench_db.views import CASE, DEVICE, ENVIRONMENT, HOST, JOB, SERIES
from vkbench_db.works import SEVERITY, Key, Side, Work, works

DENSE = 4  # cases in a range, for each that is wanted

_Both: TypeAlias = Sequence[tuple[Key, Work, Work]]  # work of both sides, old and new


class Named(NamedTuple):
    """Which work it is."""

    device: str  # key; "" where two devices are compared
    device_name: str
    host: str
    case_name: str
    mode: str
    variant: str  # asked for


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
    def is_slower(self) -> bool:
        """Or, of two devices, farther from its roof."""
        return self.is_changed and self.quotient > 1

    @property
    def is_faster(self) -> bool:
        """Or, of two devices, nearer to its roof."""
        return self.is_changed and self.quotient < 1


@dataclass(frozen=True, kw_only=True)
class Change:
    """The same work, ended differently."""

    work: Named
    old: State
    new: State
    job: int  # that shows it
    reason: str = ""  # of the new state


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All that two references have in common, and how much they do not."""

    old: Reference
    new: Reference
    changes: tuple[Change, ...]  # the gravest first
    pairs: tuple[Pair, ...]  # the slowest first
    only_old: int  # pieces of work, finished on one side alone
    only_new: int
    # (device key, old, new): clock policies under which equal work was done
    policies: tuple[tuple[str, str, str], ...]

    @cached_property
    def mean(self) -> Mean | None:
        """Geometric mean of all ratios, with its interval; None without pairs."""
        return ratios.geometric_mean([pair.quotient for pair in self.pairs])

    @cached_property
    def device_means(self) -> dict[tuple[str, str], Mean]:
        """The same of each device, by its key and name; empty where there is one alone."""
        grouped: dict[tuple[str, str], list[float]] = {}
        for pair in self.pairs:
            device = pair.work.device, pair.work.device_name
            grouped.setdefault(device, []).append(pair.quotient)
        if len(grouped) < 2:
            return {}
        means = {device: ratios.geometric_mean(found) for device, found in grouped.items()}
        return {device: mean for device, mean in means.items() if mean}

    @cached_property
    def fleet_mean(self) -> Mean | None:
        """Of the devices' means: one with many cases weighs no more than another."""
        return ratios.geometric_mean([mean.value for mean in self.device_means.values()])


def compare(
    tx: Connection, old: Reference, new: Reference, *, metrics: Sequence[str] = ()
) -> Comparison:
    """Pair the results of two references by device, case, mode, variant and metric."""
    by_roof = _is_by_roof(old, new)
    before, after = (works(tx, each, metrics=metrics, by_roof=by_roof) for each in (old, new))
    both = [(key, work, after[key]) for key, work in before.items() if key in after]
    named = _Names.load(tx, [key for key, _, _ in both])
    return Comparison(
        old=old,
        new=new,
        changes=tuple(sorted(_changes(tx, named, both), key=_gravity)),
        pairs=tuple(_pairs(tx, named, both)),
        only_old=len(before) - len(both),
        only_new=len(after) - len(both),
        policies=tuple(_policies(tx, named, both)),
    )


def with_noise(tx: Connection, pairs: Sequence[Pair]) -> list[Pair]:
    """The same pairs, whose sides know the noise of their series."""
    series = {side.series for pair in pairs for side in (pair.old, pair.new)}
    sigmas: dict[int | None, float | None] = {}
    for page in batches(sorted(number for number in series if number is not None)):
        sigmas |= dict(
            tx.execute(select(SERIES.c.id, SERIES.c.sigma).where(SERIES.c.id.in_(page))).all()
        )
    is_known = all(sigmas.get(number) for number in series)
    usual = {} if is_known else device_sigmas(tx)

    def known(side: Side, device: str) -> Side:
        return side._replace(sigma=sigmas.get(side.series), device_sigma=usual.get(device))

    return [
        pair._replace(old=known(pair.old, pair.work.device), new=known(pair.new, pair.work.device))
        for pair in pairs
    ]


def _is_by_roof(old: Reference, new: Reference) -> bool:
    """Seconds are compared within one device, shares of the roof between two."""
    if Kind.DEVICE not in (old.kind, new.kind):
        return False
    if old.kind is not new.kind:
        raise UsageError("a device is compared with a device: give device:SELECTOR twice")
    if old.device == new.device:
        raise UsageError(f"both sides are device {old.device}: compare its runs, or two devices")
    return True


@dataclass(frozen=True, kw_only=True)
class _Names:
    """Devices and cases by their numbers."""

    devices: Mapping[int, tuple[str, str, str]]  # key, name, host
    cases: Mapping[int, str]

    @classmethod
    def load(cls, tx: Connection, keys: Sequence[Key]) -> _Names:
        device, case = DEVICE.c, CASE.c
        rows = tx.execute(
            select(device.id, device.key, device.name, HOST.c.name).join(
                HOST, HOST.c.id == device.host_id
            )
        )
        wanted = sorted({key[1] for key in keys})
        cases: dict[int, str] = {}
        for page in batches(wanted):
            # a range where it is nearly one: thousands of parameters cost more than what they save
            is_dense = page[-1] - page[0] < DENSE * len(page)
            where = case.id.between(page[0], page[-1]) if is_dense else case.id.in_(page)
            cases |= dict(tx.execute(select(case.id, case.name).where(where)).all())
        return cls(devices={row[0]: (row[1], row[2], row[3]) for row in rows}, cases=cases)

    def of(self, key: Key) -> Named:
        """Which work that is."""
        device, case, mode, variant = key
        shown, name, host = self.devices.get(device, ("", "", ""))
        return Named(shown, name, host, self.cases[case], mode, variant)


def _pairs(tx: Connection, named: _Names, works: _Both) -> list[Pair]:
    pairs: list[Pair] = []
    for key, before, after in works:
        work = named.of(key)
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
    is_flagged = pair.old.flag or pair.new.flag
    return not is_flagged and not 1 / (1 + FLOOR) < pair.quotient < 1 + FLOOR


def _changes(tx: Connection, named: _Names, works: _Both) -> list[Change]:
    changed = [(key, old, new) for key, old, new in works if old.state != new.state]
    reasons: dict[int, str] = {}
    for page in batches(sorted(new.job for _, _, new in changed)):
        asked = select(JOB.c.id, JOB.c.reason).where(JOB.c.id.in_(page))
        reasons |= dict(tx.execute(asked).all())
    return [
        Change(
            work=named.of(key),
            old=State(old.state),
            new=State(new.state),
            job=new.job,
            reason=reasons[new.job],
        )
        for key, old, new in changed
    ]


def _policies(tx: Connection, named: _Names, works: _Both) -> list[tuple[str, str, str]]:
    """Where equal work was timed under unlike clock policies: device key, old, new."""
    timed = {
        (key[0], old.environments, new.environments)
        for key, old, new in works
        if old.sides and new.sides
    }
    hashes = {name for _, *sides in timed for side in sides for name in side}
    rows = tx.execute(
        select(ENVIRONMENT.c.hash, ENVIRONMENT.c.facts).where(ENVIRONMENT.c.hash.in_(hashes))
    )
    policy = {name: facts.get("clock_policy", "default") for name, facts in rows}
    unlike: dict[tuple[str, str, str], None] = {}
    for device, old, new in timed:
        said = [", ".join(sorted({policy[n] for n in side if n in policy})) for side in (old, new)]
        if said[0] != said[1]:
            unlike[(named.devices.get(device, ("",))[0], said[0], said[1])] = None
    return sorted(unlike)


def _slowness(pair: Pair) -> tuple[float, str, str]:
    return -pair.quotient, pair.work.case_name, pair.metric


def _gravity(change: Change) -> tuple[int, int, str]:
    return SEVERITY.index(change.new), -SEVERITY.index(change.old), change.work.case_name
