"""Baselines: names for results of a run, a bundle, a build, a driver or a day, to compare with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import erfc, log, sqrt
from statistics import median

from sqlalchemy import Connection, delete, func, insert, select, update

from vkbench.errors import UnknownName, UsageError
from vkbench.job import Arm, ArmKind
from vkbench.run import COMPARED
from vkbench.words import names
from vkbench_db import schema
from vkbench_db.ask.driver_names import find_driver, find_environments, find_files
from vkbench_db.ask.queries import find_run
from vkbench_db.batches import batches
from vkbench_db.rows import fetch, select_record
from vkbench_db.work.builds import find_build_sha
from vkbench_detection.compare.evidence import ratio_of
from vkbench_detection.compare.references import (
    LatestBefore,
    Reference,
    ReferenceKind,
    WholeRun,
    find_baseline,
    find_bundle,
    find_of_date,
)
from vkbench_detection.compare.sides import Side
from vkbench_detection.series.profiles import device_sigmas
from vkbench_detection.statistics.ratios import Ratio
from vkbench_detection.statistics.screen import JUMP_CHANGE, JUMP_SIGMAS, LEAST

_NAME = re.compile(r"[A-Za-z][\w.+-]*")
_TAKEN = ("last",)
RELEASE = re.compile(r"(release|v\d)", re.IGNORECASE)  # how the names of releases begin
JUMP_CHANCE = erfc(JUMP_SIGMAS / sqrt(2))  # two-sided p
BATCH = 200  # series whose rows are read at once


@dataclass(frozen=True, kw_only=True)
class _Found:
    """A result that counts in its series, with all that a baseline may ask about."""

    series_id: int
    job_id: int
    measured_at: float
    seconds: float
    low: float
    high: float
    samples: int
    run_id: int
    bundle: str
    environment: str


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """A name for a run, a bundle, a build, a driver or a day."""

    name: str
    kind: str  # run | bundle | build | driver | date
    value: str  # UUID, SHA-256, a driver's name, version or hash, or a moment in ISO 8601
    created_at: float
    user: str


@dataclass(frozen=True, kw_only=True)
class Departure:
    """A young series whose newest result differs from a baseline's."""

    series: int
    baseline: str  # its name
    before_job: int  # the baseline's last
    after_job: int  # the newest
    ratio: Ratio  # new over old


@dataclass(frozen=True, kw_only=True)
class _Pinned:
    """A baseline, and what tells whether a result is of it."""

    name: str
    reference: Reference
    environments: frozenset[str]  # hashes, of a driver


def pin(
    tx: Connection, name: str, kind: ReferenceKind, value: str, now: float, user: str
) -> Baseline:
    """Give a name to results of one kind, in place of what the name meant before."""
    if not _NAME.fullmatch(name) or name.casefold() in _TAKEN:
        raise UsageError(
            f"'{name}' is no name for a baseline: letters, digits, '.', '-' and '_', a letter first"
        )
    row = {
        "kind": str(kind),
        "value": _value(tx, kind, value),
        "created_at": now,
        "user_name": user,
    }
    known = tx.execute(select(schema.baseline.c.id).where(schema.baseline.c.name == name)).scalar()
    if known is None:
        tx.execute(insert(schema.baseline).values(name=name, **row))
    else:
        tx.execute(update(schema.baseline).where(schema.baseline.c.id == known).values(**row))
    return next(baseline for baseline in baselines(tx) if baseline.name == name)


def unpin(tx: Connection, name: str) -> None:
    """Delete a baseline; its results stay."""
    known = [baseline.name for baseline in baselines(tx)]
    if name not in known:
        raise UnknownName("baseline", name, names.nearest(name, known))
    tx.execute(delete(schema.baseline).where(schema.baseline.c.name == name))


def baselines(tx: Connection) -> list[Baseline]:
    """All baselines, the newest first."""
    row = schema.baseline.c
    rows = tx.execute(
        select(row.name, row.kind, row.value, row.created_at, row.user_name.label("user")).order_by(
            row.created_at.desc(), row.id.desc()
        )
    )
    return [Baseline(**stored._mapping) for stored in rows]


def last_references(tx: Connection) -> list[Reference]:
    """The last release, and the last baseline if that is another."""
    pinned = [baseline.name for baseline in baselines(tx)]
    releases = [name for name in pinned if RELEASE.match(name)]
    return [find_baseline(tx, name) for name in dict.fromkeys([*releases[:1], *pinned[:1]])]


def departures(tx: Connection, series: Iterable[int]) -> list[Departure]:
    """Which of these series the newest result is unlike the newest baseline that knows them.

    For series too young for the screen. As the screen does, it asks for 3 sigma and 1.5 %, so that
    what it finds is a suspicion, and for nothing of results that do not count.
    """
    pinned = [_read_pinned(tx, baseline.name) for baseline in baselines(tx)]
    unlike = []
    for page in batches(sorted(set(series)), BATCH) if pinned else ():
        young = _young(tx, page)
        sigmas = _sigmas(tx, young)
        for number, rows in groupby(_results(tx, young), key=lambda row: int(row.series_id)):
            results = list(rows)
            if len(results) < LEAST:
                unlike.append(_departure(number, results, pinned, sigmas[number]))
    return [departure for departure in unlike if departure]


def _value(tx: Connection, kind: ReferenceKind, given: str) -> str:
    """The value to store: it means the same in every database."""
    match kind:
        case ReferenceKind.RUN:
            return find_run(tx, given, COMPARED).uuid
        case ReferenceKind.BUNDLE:
            return find_bundle(tx, given)
        case ReferenceKind.BUILD:
            return find_build_sha(tx, given)
        case ReferenceKind.DRIVER:
            return _find_driver(tx, given)
        case ReferenceKind.DATE:
            find_of_date(tx, given)
            return given.strip()
    raise UsageError(f"a baseline is a run, a bundle, a build, a driver or a date, not a {kind}")


def _find_driver(tx: Connection, given: str) -> str:
    """The hash of a driver that was added, where a name means one; else the name or version."""
    environments = find_driver(tx, given)
    files = [sha for sha in find_files(tx, given) if find_environments(tx, sha) == environments]
    return files[0] if files else given.strip()


def _results(tx: Connection, series: Sequence[int]) -> Sequence[_Found]:
    """What counts in these series, in order, with all that a baseline may ask about."""
    timing = schema.measurement.c
    query = (
        select_record(
            _Found,
            schema.measurement,
            schema.attempt,
            run_id=schema.job.c.run_id,
            samples=timing.count,
        )
        .join(schema.job, schema.job.c.id == timing.job_id)
        .join(schema.attempt, schema.is_settling)
        .where(timing.series_id.in_(series), timing.flag == "", timing.seconds > 0)
        .order_by(timing.series_id, timing.measured_at, timing.job_id)
    )
    return fetch(tx, query, _Found)


def _departure(
    series: int,
    results: Sequence[_Found],
    pinned: Sequence[_Pinned],
    sigma: float,
) -> Departure | None:
    newest = results[-1]
    for baseline in pinned:
        of_baseline = [row for row in results if _belongs(row, baseline)]
        if not of_baseline:
            continue
        ratio = ratio_of(_side(of_baseline, sigma), _side([newest], sigma))
        is_large = abs(log(ratio.ratio)) >= JUMP_CHANGE and ratio.p <= JUMP_CHANCE
        return (
            Departure(
                series=series,
                baseline=baseline.name,
                before_job=of_baseline[-1].job_id,
                after_job=newest.job_id,
                ratio=ratio,
            )
            if is_large and newest not in of_baseline
            else None
        )
    return None


def _read_pinned(tx: Connection, name: str) -> _Pinned:
    reference = find_baseline(tx, name)
    match reference.chosen:
        case Arm(kind=ArmKind.DRIVER, name=driver):
            environments = frozenset(find_environments(tx, driver))
        case _:
            environments = frozenset()
    return _Pinned(name=name, reference=reference, environments=environments)


def _belongs(row: _Found, baseline: _Pinned) -> bool:
    match baseline.reference.chosen:
        case WholeRun(number=run):
            return row.run_id == run
        case Arm(kind=ArmKind.BUNDLE | ArmKind.BUILD, name=sha):
            return row.bundle == sha
        case Arm(kind=ArmKind.DRIVER):
            return row.environment in baseline.environments
        case LatestBefore(moment=moment):
            return row.measured_at < moment
    raise UsageError(f"no baseline is {baseline.reference.name}")


def _side(rows: Sequence[_Found], sigma: float) -> Side:
    values = tuple(row.seconds for row in rows)
    return Side(
        value=median(values),
        values=values,
        low=min(row.low for row in rows),
        high=max(row.high for row in rows),
        samples=sum(row.samples for row in rows),
        job=rows[-1].job_id,
        flag="",
        series=rows[-1].series_id,
        sigma=sigma,
    )


def _young(tx: Connection, series: Sequence[int]) -> list[int]:
    """Series with few results: with twice as many as it needs, the screen surely runs."""
    timing = schema.measurement.c
    counted = select(timing.series_id).where(timing.series_id.in_(series))
    few = counted.group_by(timing.series_id).having(func.count() < 2 * LEAST)
    return [number for number in tx.execute(few).scalars() if number is not None]


def _sigmas(tx: Connection, series: Sequence[int]) -> dict[int, float]:
    """The noise of each series; without a profile, that of the device's other series."""
    usual = device_sigmas(tx)
    rows = tx.execute(
        select(schema.series.c.id, schema.series.c.sigma, schema.device.c.key)
        .join(schema.device, schema.device.c.id == schema.series.c.device_id)
        .where(schema.series.c.id.in_(series))
    )
    return {row.id: row.sigma or usual[row.key] for row in rows}
