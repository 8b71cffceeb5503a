"""What there is to tell of a regression or of a run: the changes, and what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, select

from vkbench.errors import UnknownName
from vkbench.job import State
from vkbench_db import models
from vkbench_db.runs import run_progress

MOST = 1000  # changes that are read: of thousands nobody reads the rest


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change point, with the words for where it is."""

    id: int
    case: str
    variant: str
    metric: str
    host: str
    device: str  # key
    device_name: str
    direction: str  # slower | faster | wrong
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


@dataclass(frozen=True, kw_only=True)
class RegressionNews:
    """A regression as people are told of it."""

    id: int
    title: str
    state: str
    direction: str
    cause: str
    owner: str
    opened_at: float
    changed_at: float
    note: str  # of its last event
    changes: tuple[Change, ...]
    kernels: Mapping[str, int] = field(default_factory=dict)  # changes of each, most first


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """A job that did not end well."""

    case: str
    device_name: str
    state: str  # wrong | failed
    reason: str


@dataclass(frozen=True, kw_only=True)
class RunNews:
    """A run as people are told of it."""

    id: int
    label: str
    counts: Mapping[State, int]
    trouble: tuple[Trouble, ...]  # wrong ones first
    changes: tuple[Change, ...]  # that its results brought to light, whatever became of them


def of_regression(tx: Connection, regression: int) -> RegressionNews:
    """What there is to tell of a regression."""
    table, event = models.Regression, models.RegressionEvent
    row = tx.execute(select(table.__table__).where(table.id == regression)).first()
    if row is None:
        raise UnknownName("regression", str(regression))
    last = (
        select(event.note)
        .where(event.regression_id == regression)
        .order_by(event.id.desc())
        .limit(1)
    )
    member = models.RegressionMember
    asked = _changes().join(member, member.change_point_id == models.ChangePoint.id)
    changes = _found(tx, asked, member.regression_id == regression)
    kernels = Counter(change.case.partition("/")[0] for change in changes)
    return RegressionNews(
        id=row.id,
        title=row.title,
        state=row.state,
        direction=row.direction,
        cause=row.cause,
        owner=row.owner,
        opened_at=row.opened_at,
        changed_at=row.changed_at,
        note=tx.execute(last).scalar() or "",
        changes=changes,
        kernels=dict(kernels.most_common()),
    )


def of_run(tx: Connection, run: int, label: str = "") -> RunNews:
    """What there is to tell of a run."""
    after = models.Job.__table__.alias("after")
    asked = _changes().join(after, after.c.id == models.ChangePoint.after_job)
    return RunNews(
        id=run,
        label=label,
        counts=run_progress(tx, run).counts,
        trouble=_trouble(tx, run),
        changes=_found(tx, asked, after.c.run_id == run),
    )


def _trouble(tx: Connection, run: int) -> tuple[Trouble, ...]:
    job, case, device = models.Job, models.KernelCase, models.Device
    rows = tx.execute(
        select(case.name, device.name.label("device_name"), job.state, job.reason, job.cause)
        .join(case, case.id == job.case_id)
        .join(device, device.id == job.device_id)
        .where(job.run_id == run, job.state.in_((State.WRONG, State.FAILED)))
        .order_by(job.state.desc(), job.position)  # w is after f
        .limit(MOST)
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


def _found(
    tx: Connection, asked: Select[*tuple[Any, ...]], where: ColumnElement[bool]
) -> tuple[Change, ...]:
    drivers = _drivers(tx)
    rows = tx.execute(asked.where(where).order_by(models.ChangePoint.id).limit(MOST)).all()
    return tuple(
        Change(
            **{name: getattr(row, name) for name in _READ},
            before_driver=drivers.get(row.before_environment, ""),
            after_driver=drivers.get(row.after_environment, ""),
        )
        for row in rows
    )


_READ = (
    *("id", "case", "variant", "metric", "host", "device", "device_name", "direction", "state"),
    *("cause", "ratio", "low", "high", "p", "before_bundle", "after_bundle", "found_at"),
)


def _changes() -> Select[*tuple[Any, ...]]:
    change, series, case = models.ChangePoint, models.Series, models.KernelCase
    device, host = models.Device, models.Host
    return (
        select(
            change.__table__,
            case.name.label("case"),
            series.variant,
            series.metric,
            host.name.label("host"),
            device.key.label("device"),
            device.name.label("device_name"),
        )
        .join(series, series.id == change.series_id)
        .join(case, case.id == series.case_id)
        .join(device, device.id == series.device_id)
        .join(host, host.id == device.host_id)
    )


def _drivers(tx: Connection) -> dict[str, str]:
    environment = models.Environment
    rows = tx.execute(select(environment.hash, environment.driver, environment.driver_version))
    return {row.hash: f"{row.driver} {row.driver_version}".strip() for row in rows}
