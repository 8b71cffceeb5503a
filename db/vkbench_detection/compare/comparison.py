"""Two sets of results side by side: what became wrong or right, and whose times truly changed.

Sides that share a device are compared on it. Sides that share none are hardware beside hardware:
each device of the old side beside each of the new one, by plain times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlalchemy import Connection, select

from vkbench.errors import UsageError
from vkbench.job import SEVERITY, JobState
from vkbench_db import schema
from vkbench_db.batches import batches
from vkbench_detection.compare.compared import (
    ComparedChange,
    Comparison,
    Named,
    Pair,
    Place,
    Word,
)
from vkbench_detection.compare.device_histories import DeviceHistory, device_history
from vkbench_detection.compare.evidence import LEAST_SAMPLES
from vkbench_detection.compare.references import Reference
from vkbench_detection.compare.result_sets import works
from vkbench_detection.compare.sides import ComparedWork, Key, Side
from vkbench_detection.compare.turns import add_turns
from vkbench_detection.series.points import CHECKED
from vkbench_detection.series.profiles import HOST, device_sigmas, host_sigma
from vkbench_detection.statistics.discoveries import believe_which
from vkbench_detection.statistics.ratios import FLOOR
from vkbench_detection.statistics.tails import Tails

DENSE = 4  # cases in a range, for each that is wanted

_Both: TypeAlias = Sequence[tuple[Key, Key, ComparedWork, ComparedWork]]  # old and new side


def compare(
    tx: Connection,
    old: Reference,
    new: Reference,
    *,
    metrics: Sequence[str] = (),
    device: str = "",
) -> Comparison:
    """Pair the results of two references by case, mode, variant and metric, and by device.

    With `device`, a key, only work of both sides on that one is paired.
    """
    if old.is_device and old == new:
        raise UsageError(f"both sides are {old.name}: compare its runs, or two devices")
    number = _number_of(tx, device) if device else None
    before, after = (works(tx, side, metrics=metrics, device=number) for side in (old, new))
    add_turns(tx, (old, new), (before, after), metrics, number)
    is_across = _is_across(before, after)
    both = _on_any_two(before, after) if is_across else _on_the_same(before, after)
    named = _Names.load(tx, [key for key, *_ in both])
    pairs = _flag_unlike(tx, _pairs(named, both))
    histories = _histories(tx, pairs)
    return Comparison(
        old=old,
        new=new,
        changes=tuple(sorted(_changes(tx, named, both), key=_gravity)),
        pairs=tuple(_judge_pairs(tx, pairs, histories)),
        only_old=len(before) - len({key for key, *_ in both}),
        only_new=len(after) - len({key for _, key, *_ in both}),
        policies=tuple(_policies(tx, named, both)),
        is_across=is_across,
        old_places=named.places(before),
        new_places=named.places(after),
        otherwise=0 if both else len(_cases(before) & _cases(after)),
        histories=histories,
    )


def _number_of(tx: Connection, device: str) -> int:
    return tx.execute(select(schema.device.c.id).where(schema.device.c.key == device)).scalar_one()


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


def with_noise(
    tx: Connection, pairs: Sequence[Pair], histories: Mapping[str, DeviceHistory]
) -> list[Pair]:
    """Look up the noise of the series of both sides of pairs, and of their devices."""
    series = {side.series for pair in pairs for side in (pair.old, pair.new)}
    table, noise = schema.series.c, dict[int | None, tuple[float | None, float | None]]()
    for page in batches(sorted(number for number in series if number is not None)):
        rows = tx.execute(
            select(table.id, table.sigma, table.autocorrelation).where(table.id.in_(page))
        )
        noise |= {number: (sigma, memory) for number, sigma, memory in rows}
    young = {number for number in series if not noise.get(number, (None,))[0]}
    usual = device_sigmas(tx) if young else {}
    by_host = _by_host(tx, pairs, young)

    def look_up_noise(side: Side, device: str) -> Side:
        sigma, memory = noise.get(side.series, (None, None))
        presumed = usual.get(device)
        if presumed is not None and side.job in by_host:
            presumed = host_sigma(presumed, side.value)
        return side._replace(sigma=sigma, autocorrelation=memory, device_sigma=presumed)

    return [
        pair._replace(
            old=look_up_noise(pair.old, pair.work.old.key),
            new=look_up_noise(pair.new, pair.work.new.key),
            tails=_tails(pair, histories),
        )
        for pair in pairs
    ]


def _by_host(tx: Connection, pairs: Sequence[Pair], series: Collection[int | None]) -> set[int]:
    """The newest jobs of sides in these series that the host's clock timed."""
    timing = schema.measurement.c
    sides = (side for pair in pairs for side in (pair.old, pair.new) if side.series in series)
    jobs: set[int] = set()
    for page in batches(sorted({side.job for side in sides})):
        chosen = select(timing.job_id).where(timing.job_id.in_(page), timing.clock == HOST)
        jobs.update(tx.execute(chosen).scalars())
    return jobs


def _flag_unlike(tx: Connection, pairs: Sequence[Pair]) -> list[Pair]:
    """Flag pairs where only one side was timed with bounds checked."""
    table = schema.series.c
    query = select(table.id).where(table.environment_class.endswith(CHECKED))
    checked = set(tx.execute(query).scalars())

    def flag_unlike(pair: Pair) -> Pair:
        sides = (pair.old.series, pair.new.series)
        if None in sides or (sides[0] in checked) == (sides[1] in checked):
            return pair
        return pair.with_sides(pair.old, pair.new._replace(flag=CHECKED))

    return [flag_unlike(pair) for pair in pairs] if checked else list(pairs)


def _histories(tx: Connection, pairs: Sequence[Pair]) -> dict[str, DeviceHistory]:
    """How the results of each device scatter, by its key: of the series that are compared."""
    sides: dict[str, list[Side]] = {}
    for pair in pairs:
        for place, side in ((pair.work.old, pair.old), (pair.work.new, pair.new)):
            sides.setdefault(place.key, []).append(side)
    return {
        key: device_history(
            tx,
            key,
            {side.series for side in known if side.series is not None},
            {side.job for side in known if len(side.values) == 1},
        )
        for key, known in sides.items()
    }


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
        numbers = sorted({key[1] for key in keys})
        cases: dict[int, str] = {}
        for page in batches(numbers):
            # a range where it is nearly one: thousands of parameters cost more than what they save
            is_dense = page[-1] - page[0] < DENSE * len(page)
            where = case.id.between(page[0], page[-1]) if is_dense else case.id.in_(page)
            cases |= dict(tx.execute(select(case.id, case.name).where(where)).all())
        return cls(devices={number: Place(*place) for number, *place in rows}, cases=cases)

    def of(self, old: Key, new: Key) -> Named:
        """Name the case, mode, variant and devices of a piece of work."""
        _, case, mode, variant = old
        return Named(self.devices[old[0]], self.devices[new[0]], self.cases[case], mode, variant)

    def places(self, side: Iterable[Key]) -> tuple[Place, ...]:
        """The devices of a side's work."""
        return tuple(sorted(self.devices[number] for number in {key[0] for key in side}))


def _pairs(named: _Names, works: _Both) -> list[Pair]:
    pairs: list[Pair] = []
    for old_key, new_key, before, after in works:
        work = named.of(old_key, new_key)
        for metric, old in before.sides.items():
            new = after.sides.get(metric)
            if new:
                pairs.append(Pair.of(work, metric, old, new))
    pairs.sort(key=_slowness)
    return pairs


def _judge_pairs(
    tx: Connection, pairs: Sequence[Pair], histories: Mapping[str, DeviceHistory]
) -> list[Pair]:
    """Judge pairs together, since some of thousands look changed by chance."""
    judged = list(pairs)
    unsure = [place for place, pair in enumerate(judged) if _is_large(pair) or _is_short(pair)]
    noisy = with_noise(tx, [judged[at] for at in unsure], histories)
    for place, pair in zip(unsure, noisy, strict=True):
        judged[place] = pair.with_sides(pair.old, pair.new)
    counting = [
        place
        for place, pair in enumerate(judged)
        if pair.word is Word.SAME and not pair.is_in_turns  # those were judged as pairs are
    ]
    p_values = [_p(judged[place]) for place in counting]
    for place, is_believed in zip(counting, believe_which(p_values), strict=True):
        if is_believed:
            judged[place] = judged[place].as_changed()
    return judged


def _tails(pair: Pair, histories: Mapping[str, DeviceHistory]) -> tuple[Tails, ...]:
    devices = dict.fromkeys((pair.work.old.key, pair.work.new.key))
    return tuple(histories[key].tails for key in devices)


def _p(pair: Pair) -> float:
    ratio = pair.ratio if _is_large(pair) else None
    return ratio.p if ratio else 1.0


def _is_large(pair: Pair) -> bool:
    return not 1 / (1 + FLOOR) < pair.quotient < 1 + FLOOR


def _is_short(pair: Pair) -> bool:
    return min(pair.old.samples, pair.new.samples) < LEAST_SAMPLES


def _changes(tx: Connection, named: _Names, works: _Both) -> list[ComparedChange]:
    changed = [work for work in works if work[2].state != work[3].state]
    reasons: dict[int, str] = {}
    for page in batches(sorted({new.job for *_, new in changed})):
        query = select(schema.job.c.id, schema.job.c.reason).where(schema.job.c.id.in_(page))
        reasons |= dict(tx.execute(query).all())
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
        policies = [
            ", ".join(sorted({policy[n] for n in side if n in policy})) for side in (old, new)
        ]
        if policies[0] != policies[1]:
            keys = dict.fromkeys(named.devices[device].key for device in (one, other))
            unlike[(" → ".join(keys), policies[0], policies[1])] = None
    return sorted(unlike)


def _slowness(pair: Pair) -> tuple[float, str, str]:
    return -pair.quotient, pair.work.case_name, pair.metric


def _gravity(change: ComparedChange) -> tuple[int, int, str]:
    return SEVERITY.index(change.new), -SEVERITY.index(change.old), change.work.case_name
