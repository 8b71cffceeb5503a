"""What a message about a regression or a run says: the changes, and which jobs are wrong."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, select

from vkbench.errors import UnknownName
from vkbench.job import JobState
from vkbench_db import schema
from vkbench_db.rows import record_of
from vkbench_db.work.runs import run_progress
from vkbench_detection.peers.pairs import peer_pairs
from vkbench_detection.peers.standings import Standing, standings
from vkbench_detection.regress.inbox import RegressionFacts

MOST_TROUBLE = 1000  # jobs of a run that are named; its counts are of all


@dataclass(frozen=True, kw_only=True)
class ChangedCase:
    """A change point with the names of its case, host and device."""

    id: int
    case: str
    variant: str
    metric: str
    host: str
    device: str  # key
    device_name: str
    direction: str  # slower | faster | wrong | failed
    state: str
    cause: str
    ratio: float | None  # new over old
    low: float | None
    high: float | None
    p: float | None
    before_bundle: str
    after_bundle: str
    before_driver: str  # with its version
    after_driver: str
    found_at: float
    program: str | None = None  # whose build came with it; None of kernels
    before_build: str | None = None  # what people call the builds
    after_build: str | None = None


@dataclass(frozen=True, kw_only=True)
class RegressionNews(RegressionFacts):
    """What a message about a regression says."""

    note: str  # of its last event
    changes: tuple[ChangedCase, ...]
    kernels: Mapping[str, int] = field(default_factory=dict)  # changes of each, most first


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """A job that is wrong or failed."""

    case: str
    device_name: str
    state: str  # wrong | failed
    reason: str


@dataclass(frozen=True, kw_only=True)
class PeerNews:
    """What a run found of one peer on one device."""

    peer: str
    device_name: str
    cases: int
    ratio: float | None  # theirs over ours: the geometric mean; None where all are too noisy
    fallen: tuple[str, ...]  # cases whose ratio fell


@dataclass(frozen=True, kw_only=True)
class RunNews:
    """What a message about a run says."""

    id: int
    label: str
    counts: Mapping[JobState, int]
    trouble: tuple[Trouble, ...]  # wrong ones first, MOST_TROUBLE of them
    changes: tuple[ChangedCase, ...]  # that its results showed, in whatever state these are now
    peers: tuple[PeerNews, ...] = ()


def of_regression(tx: Connection, regression: int) -> RegressionNews:
    """What a message about a regression says; UnknownName if there is no such regression."""
    table, event = schema.regression.c, schema.regression_event.c
    row = tx.execute(select(schema.regression).where(table.id == regression)).mappings().first()
    if row is None:
        raise UnknownName("regression", str(regression))
    last = (
        select(event.note)
        .where(event.regression_id == regression)
        .order_by(event.id.desc())
        .limit(1)
    )
    member = schema.regression_member.c
    query = _changes().join(
        schema.regression_member, member.change_point_id == schema.change_point.c.id
    )
    changes = _find_cases(tx, query, member.regression_id == regression)
    kernels = Counter(change.case.partition("/")[0] for change in changes)
    more = {"note": tx.execute(last).scalar() or "", "changes": changes}
    return record_of({**row, **more, "kernels": dict(kernels.most_common())}, RegressionNews)


def of_run(tx: Connection, run: int, label: str = "") -> RunNews:
    """What a message about a run says."""
    after = schema.job.alias("after")
    query = _changes().join(after, after.c.id == schema.change_point.c.after_job)
    return RunNews(
        id=run,
        label=label,
        counts=run_progress(tx, run).counts,
        trouble=_trouble(tx, run),
        changes=_find_cases(tx, query, after.c.run_id == run),
        peers=_peers(tx, run),
    )


def _peers(tx: Connection, run: int) -> tuple[PeerNews, ...]:
    by_peer: dict[tuple[str, str, str], list[Standing]] = defaultdict(list)
    for standing in standings(tx, peer_pairs(tx, run=run)):
        by_peer[standing.pair.peer, standing.pair.device_name, standing.pair.device].append(
            standing
        )
    return tuple(
        PeerNews(
            peer=peer,
            device_name=device_name,
            cases=len(all_of),
            ratio=_mean_ratio(all_of),
            fallen=tuple(one.pair.case_name for one in all_of if one.has_fallen),
        )
        for (peer, device_name, _), all_of in by_peer.items()
    )


def _mean_ratio(standings: Sequence[Standing]) -> float | None:
    ratios = [standing.ratio.ratio for standing in standings if standing.ratio]
    return statistics.geometric_mean(ratios) if ratios else None


def _trouble(tx: Connection, run: int) -> tuple[Trouble, ...]:
    job, case, device = schema.job.c, schema.kernel_case.c, schema.device.c
    rows = tx.execute(
        select(case.name, device.name.label("device_name"), job.state, job.reason, job.cause)
        .join(schema.kernel_case, case.id == job.case_id)
        .join(schema.device, device.id == job.device_id)
        .where(job.run_id == run, job.state.in_((JobState.WRONG, JobState.FAILED)))
        .order_by(job.state.desc(), job.position)  # w is after f
        .limit(MOST_TROUBLE)
    )
    return tuple(
        Trouble(
            case=row.name,
            device_name=row.device_name,
            state=row.state,
            reason=row.reason or row.cause,
        )
        for row in rows
    )


def _find_cases(
    tx: Connection, query: Select[*tuple[Any, ...]], where: ColumnElement[bool]
) -> tuple[ChangedCase, ...]:
    drivers = _drivers(tx)
    rows = tx.execute(query.where(where).order_by(schema.change_point.c.id)).all()
    return tuple(
        ChangedCase(
            **{name: getattr(row, name) for name in _READ},
            before_driver=drivers.get(row.before_environment, ""),
            after_driver=drivers.get(row.after_environment, ""),
        )
        for row in rows
    )


_READ = (
    *("id", "case", "variant", "metric", "host", "device", "device_name", "direction", "state"),
    *("cause", "ratio", "low", "high", "p", "before_bundle", "after_bundle", "found_at"),
    *("program", "before_build", "after_build"),
)


def _changes() -> Select[*tuple[Any, ...]]:
    change, series, case = schema.change_point.c, schema.series.c, schema.kernel_case.c
    device, host = schema.device.c, schema.host.c
    old, new = schema.build.alias("old_build"), schema.build.alias("new_build")
    return (
        select(
            schema.change_point,
            case.name.label("case"),
            series.variant,
            series.metric,
            host.name.label("host"),
            device.key.label("device"),
            device.name.label("device_name"),
            new.c.program,
            *(old.c.name.label("before_build"), new.c.name.label("after_build")),
        )
        .join(schema.series, series.id == change.series_id)
        .join(schema.kernel_case, case.id == series.case_id)
        .join(schema.device, device.id == series.device_id)
        .join(schema.host, host.id == device.host_id)
        .outerjoin(old, old.c.sha == change.before_bundle)
        .outerjoin(new, new.c.sha == change.after_bundle)
    )


def _drivers(tx: Connection) -> dict[str, str]:
    environment = schema.environment.c
    rows = tx.execute(select(environment.hash, environment.driver, environment.driver_version))
    return {row.hash: f"{row.driver} {row.driver_version}".strip() for row in rows}
