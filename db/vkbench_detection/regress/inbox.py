"""Questions that people ask about regressions and uncertain changes; nothing here writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from sqlalchemy import ColumnElement, Connection, Select, distinct, func, select

from vkbench.errors import UnknownName
from vkbench.words import names
from vkbench_db import schema
from vkbench_db.ask.devices.names import device_keys
from vkbench_db.batches import batches
from vkbench_db.rows import fetch, select_record
from vkbench_detection.changes.decisions import VERDICTS, Cause
from vkbench_detection.changes.states import UNCERTAIN, UNDECIDED
from vkbench_detection.confirm.drivers import name_timed_drivers
from vkbench_detection.regress.stages import RegressionStage
from vkbench_detection.statistics.screen import Direction


@dataclass(frozen=True, kw_only=True)
class RegressionFacts:
    """What a regression is, and where it stands."""

    id: int
    title: str
    state: str
    direction: str
    cause: str
    owner: str
    opened_at: float
    changed_at: float


@dataclass(frozen=True, kw_only=True)
class RegressionRow(RegressionFacts):
    """A regression, with its members counted."""

    changes: int
    devices: int
    cases: int
    ratio: float | None  # the mean of its members'; None of verdicts
    smallest: float | None
    largest: float | None
    kernels: Mapping[str, int] = field(default_factory=dict)  # series of each, most first


@dataclass(frozen=True, kw_only=True)
class MemberRow:
    """A change of a regression: a row of `v_regressions` without the regression's own columns."""

    change: int
    series: int
    host: str
    device: str  # key
    device_name: str
    case_name: str
    variant: str
    metric: str
    ratio: float | None
    low: float | None
    high: float | None
    p: float | None
    method: str
    before_job: int
    after_job: int
    before_kernel: str
    after_kernel: str
    before_bundle: str
    after_bundle: str
    before_driver: str | None
    after_driver: str | None
    before_driver_version: str | None
    after_driver_version: str | None
    found_at: float
    program: str | None = None  # whose build came with it; None of kernels
    before_build: str | None = None  # what people call the builds
    after_build: str | None = None
    evidence: str = ""  # the note of its last event
    timed_drivers: tuple[str, str] | None = None  # names of the old and the new one, in turns


@dataclass(frozen=True, kw_only=True)
class SuspectRow:
    """A change that is not certain."""

    change: int
    series: int
    state: str
    direction: str
    cause: str  # of an ambiguous change: what moved there
    ratio: float | None
    p: float | None
    method: str
    host: str
    device: str  # key
    device_name: str
    case_name: str
    variant: str
    metric: str
    track: str
    found_at: float
    evidence: str = ""  # the note of its last event


@dataclass(frozen=True, kw_only=True)
class EventRow:
    """One step of a regression's life."""

    at: float
    state: str
    user: str
    note: str


@dataclass(frozen=True, kw_only=True)
class RegressionStory:
    """A regression with its members and its history."""

    row: RegressionRow
    members: Sequence[MemberRow]
    events: Sequence[EventRow] = field(default_factory=tuple)


def regressions(
    tx: Connection,
    *,
    states: Sequence[str] = (),
    directions: Sequence[str] = (),
    devices: Sequence[str] = (),
    programs: Sequence[str] = (),
    kernel: str = "",
    limit: int | None = None,
) -> list[RegressionRow]:
    """Regressions, the newest first; of a device, program or kernel those with a change of it."""
    view = schema.v_regressions.c
    where: list[ColumnElement[bool]] = []
    if states:
        where.append(view.state.in_(states))
    if directions:
        where.append(view.direction.in_(directions))
    if devices:
        keys = device_keys(tx, devices)
        where.append(view.regression.in_(select(view.regression).where(view.device.in_(keys))))
    if kernel:
        where.append(view.regression.in_(select(view.regression).where(view.kernel == kernel)))
    if programs:
        known = sorted(tx.execute(select(schema.build.c.program).distinct()).scalars())
        chosen = {name for glob in programs for name in names.matching(glob, known, "program")}
        where.append(view.regression.in_(select(view.regression).where(view.program.in_(chosen))))
    return _rows(tx, where, limit)


def story(tx: Connection, regression: int) -> RegressionStory:
    """A regression with members and history; UnknownName if there is none of this number."""
    view = schema.v_regressions.c
    matches = _rows(tx, [view.regression == regression], None)
    if not matches:
        known = [str(row.id) for row in _rows(tx, [], 100)]
        raise UnknownName("regression", str(regression), names.nearest(str(regression), known))
    query = (
        select_record(MemberRow, schema.v_regressions)
        .where(view.regression == regression)
        .order_by(view.case_name, view.variant, view.metric, view.host, view.change)
    )
    evidence = _last_words(tx, select(view.change).where(view.regression == regression))
    rows = fetch(tx, query, MemberRow)
    drivers = name_timed_drivers(tx, [row.change for row in rows])
    members = [
        replace(row, evidence=evidence.get(row.change, ""), timed_drivers=drivers.get(row.change))
        for row in rows
    ]
    return RegressionStory(row=matches[0], members=members, events=_events(tx, regression))


def suspected_changes(
    tx: Connection, *, devices: Sequence[str] = (), states: Sequence[str] = UNDECIDED
) -> list[SuspectRow]:
    """Changes in these states, the newest first."""
    change, series, device = schema.change_point.c, schema.series.c, schema.device.c
    query = (
        select_record(
            SuspectRow,
            schema.change_point,
            schema.series,
            change=change.id,
            series=change.series_id,
        )
        .join(schema.series, series.id == change.series_id)
        .join(schema.device, device.id == series.device_id)
        .join(schema.host, schema.host.c.id == device.host_id)
        .join(schema.kernel_case, schema.kernel_case.c.id == series.case_id)
        .where(change.state.in_(states))
        .order_by(change.found_at.desc(), change.id.desc())
    )
    if devices:
        query = query.where(device.key.in_(device_keys(tx, devices)))
    evidence = _last_words(tx, select(change.id).where(change.state.in_(states)))
    return [
        replace(row, evidence=evidence.get(row.change, "")) for row in fetch(tx, query, SuspectRow)
    ]


def count_open(tx: Connection) -> Mapping[tuple[str, str], int]:
    """How many regressions are open, by direction and cause; those of which none is, too."""
    table = schema.regression.c
    rows = tx.execute(
        select(table.direction, table.cause, func.count())
        .where(table.state == RegressionStage.OPEN)
        .group_by(table.direction, table.cause)
    )
    none: dict[tuple[str, str], int] = dict.fromkeys(product((*Direction, *VERDICTS), Cause), 0)
    return none | {(direction, cause): count for direction, cause, count in rows}


def read_beginning(tx: Connection, regression: int) -> float | None:
    """When the first bad job of a regression's changes ended: the day that its title names."""
    change, member, job = schema.change_point.c, schema.regression_member.c, schema.job.c
    query = (
        select(func.min(func.coalesce(job.finished_at, change.found_at)))
        .join(schema.change_point, change.id == member.change_point_id)
        .join(schema.job, job.id == change.after_job)
        .where(member.regression_id == regression)
    )
    return tx.execute(query.select_from(schema.regression_member)).scalar()


def count_opened(tx: Connection, since: float, until: float) -> int:
    """How many regressions were opened between two moments, whatever became of them."""
    opened_at = schema.regression.c.opened_at
    query = select(func.count()).where(opened_at > since, opened_at <= until)
    return tx.execute(query).scalar_one()


def uncertain(tx: Connection) -> Mapping[str, int]:
    """How many changes are suspected, being measured again, or ambiguous, by state."""
    change = schema.change_point.c
    query = select(change.state, func.count()).where(change.state.in_(UNCERTAIN))
    return dict(tx.execute(query.group_by(change.state)).all())


_OWN = ("title", "state", "direction", "cause", "owner", "opened_at", "changed_at")


def _rows(
    tx: Connection, where: Sequence[ColumnElement[bool]], limit: int | None
) -> list[RegressionRow]:
    view = schema.v_regressions.c
    own = [view[name] for name in _OWN]
    rows = tx.execute(
        select(
            view.regression.label("id"),
            *own,
            func.count().label("changes"),
            func.count(distinct(view.device)).label("devices"),
            func.count(distinct(view.case_name)).label("cases"),
            func.avg(view.ratio).label("ratio"),
            func.min(view.ratio).label("smallest"),
            func.max(view.ratio).label("largest"),
        )
        .where(*where)
        .group_by(view.regression, *own)
        .order_by(view.opened_at.desc(), view.regression.desc())
        .limit(limit)
    )
    regressions = [RegressionRow(**row._mapping) for row in rows]
    kernels = _kernels(tx, [row.id for row in regressions])
    return [replace(row, kernels=kernels[row.id]) for row in regressions]


def _kernels(tx: Connection, regressions: Sequence[int]) -> Mapping[int, dict[str, int]]:
    """How many series of each kernel changed, by regression; most first."""
    view, count = schema.v_regressions.c, func.count().label("changes")
    counts: dict[int, dict[str, int]] = {}
    for page in batches(regressions):
        rows = tx.execute(
            select(view.regression, view.kernel, count)
            .where(view.regression.in_(page))
            .group_by(view.regression, view.kernel)
            .order_by(count.desc(), view.kernel)
        )
        for regression, kernel, changes in rows:
            counts.setdefault(regression, {})[kernel] = changes
    return counts


def _last_words(tx: Connection, changes: Select[int]) -> Mapping[int, str]:
    """The note of the last event of each change."""
    event = schema.change_point_event.c
    rows = tx.execute(
        select(event.change_point_id, event.note)
        .where(event.change_point_id.in_(changes))
        .order_by(event.id)
    )
    return {row.change_point_id: row.note for row in rows}


def _events(tx: Connection, regression: int) -> list[EventRow]:
    event = schema.regression_event.c
    query = select_record(EventRow, schema.regression_event, user=event.user_name)
    return fetch(tx, query.where(event.regression_id == regression).order_by(event.id), EventRow)
