"""Series of timings, a page of them at a time, and what one series holds.

25,000 series have 5,000,000 results: the page is chosen from the rows of series alone, and results
are counted of that page, each from the index of its history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, or_, select

from vkbench.errors import UnknownName
from vkbench_db import schema
from vkbench_db.batches import batches
from vkbench_db.rows import fetch, select_record


@dataclass(frozen=True, kw_only=True)
class SeriesRow:
    """A series: a row of `v_series`."""

    series: int
    host: str
    device: str  # key
    device_name: str
    case_name: str
    kernel: str
    format: str
    variant: str  # code path that ran
    metric: str  # hot | cold; "verdict" where results became wrong or jobs failed
    side: str  # ours, or theirs: of another program
    environment_class: str
    track: str
    results: int
    newest_at: float | None
    sigma: float | None  # relative
    noise_kind: str
    autocorrelation: float | None
    smallest_effect: float | None  # smaller relative changes are not seen


@dataclass(frozen=True, kw_only=True)
class SeriesPoint:
    """A result of a series, with what produced it."""

    job: int
    run: int
    measured_at: float | None
    seconds: float
    low: float
    high: float
    count: int  # samples
    flag: str  # why it does not count; "" where it does
    bundle: str  # SHA-256, as is the kernel
    kernel_sha: str
    environment: str  # hash
    driver: str | None
    driver_version: str | None
    program: str | None = None  # whose build computed it; None where a kernel did
    build: str | None = None  # what people call that


@dataclass(frozen=True, kw_only=True)
class SeriesChange:
    """A change point of a series."""

    change: int
    state: str
    direction: str
    cause: str
    ratio: float | None  # new over old: above 1 is slower
    low: float | None
    high: float | None
    p: float | None
    method: str
    before_job: int
    after_job: int
    found_at: float
    regression: int | None


@dataclass(frozen=True, kw_only=True)
class SeriesFilter:
    """Which series are asked for."""

    # values of a column as globs, one of which has to fit
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    words: Sequence[str] = ()  # each in some text of the series


TEXTS = (
    *("host", "device", "device_name", "case_name", "kernel", "format", "variant", "metric"),
    *("side", "environment_class", "track", "noise_kind"),
)
NUMBERS = ("series", "results", "sigma", "autocorrelation", "smallest_effect")
_NARROW = (-(2.0**62), 2.0**62)  # what fits an integer column of both engines


def count(tx: Connection, chosen: SeriesFilter) -> int:
    """How many series a filter chooses."""
    return tx.execute(_select_fitting(chosen, func.count())).scalar() or 0


def page(
    tx: Connection,
    chosen: SeriesFilter,
    *,
    sort: str = "",
    descending: bool = False,
    limit: int | None = 100,
    offset: int = 0,
) -> list[SeriesRow]:
    """A page of the series that fit, ordered by a column, or by case and device."""
    number = schema.series.c.id
    key = _columns()[sort] if sort else None
    order = [] if key is None else [(key.desc() if descending else key.asc()).nulls_last()]
    usual = [_columns()[name] for name in ("case_name", "metric", "variant", "side", "device")]
    ids = (
        tx.execute(
            _select_fitting(chosen, number)
            .order_by(*order, *usual, number)
            .limit(limit)
            .offset(offset)
        )
        .scalars()
        .all()
    )
    return rows(tx, ids)


def rows(tx: Connection, ids: Sequence[int]) -> list[SeriesRow]:
    """The series of these numbers, in that order; those that do not exist are left out."""
    columns = [column.label(name) for name, column in _columns().items()]
    by_number: dict[int, SeriesRow] = {}
    for some in batches(ids):
        query = _select_joined(*columns).where(schema.series.c.id.in_(some))
        by_number |= {row.series: row for row in fetch(tx, query, SeriesRow)}
    return [by_number[number] for number in ids if number in by_number]


def list_changed(tx: Connection, device: str, metric: str, limit: int) -> list[int]:
    """Series of one metric of a device that changed for certain, the newest change first."""
    change, table = schema.change_point.c, schema.series.c
    newest = func.max(change.found_at)
    query = (
        select(table.id)
        .join(schema.change_point, change.series_id == table.id)
        .join(schema.device, schema.device.c.id == table.device_id)
        .where(
            schema.device.c.key == device,
            change.state == "confirmed",
            table.metric == metric,
        )
        .group_by(table.id)
        .order_by(newest.desc(), table.id)
        .limit(limit)
    )
    return list(tx.execute(query).scalars())


def list_siblings(tx: Connection, number: int, limit: int) -> list[SeriesRow]:
    """Other series of the same case: by other devices, code paths and metrics of the same track."""
    table, own = schema.series.c, schema.series.alias("own").c
    query = (
        select(table.id)
        .join(own.id.table, own.case_id == table.case_id)
        .where(own.id == number, table.id != number, table.track == own.track)
        .order_by(table.device_id != own.device_id, table.metric != own.metric, table.id)
        .limit(limit)
    )
    return rows(tx, tx.execute(query).scalars().all())


def one(tx: Connection, number: int) -> SeriesRow:
    """The series of a number; UnknownName if there is none."""
    known = rows(tx, [number]) if 0 <= number < 2**31 else []
    if not known:
        raise UnknownName("series", str(number))
    return known[0]


def choices(tx: Connection) -> dict[str, list[str]]:
    """The values of the columns that have few."""
    return {
        name: sorted(filter(None, tx.execute(select(column).distinct()).scalars()))
        for name, column in _columns().items()
        if name in TEXTS and name not in ("device", "case_name")
    }


def points(tx: Connection, number: int, last: int) -> list[SeriesPoint]:
    """The last results of a series, flagged ones too, the oldest first."""
    timing, attempt = schema.measurement.c, schema.attempt.c
    environment = schema.environment.c
    newest = (
        select(timing.job_id)
        .where(timing.series_id == number)
        .order_by(timing.measured_at.desc(), timing.job_id.desc())
        .limit(last)
        .subquery()
    )
    query = (
        select_record(
            SeriesPoint,
            *(schema.measurement, schema.attempt, schema.environment, schema.build),
            job=timing.job_id,
            run=schema.job.c.run_id,
            build=schema.build.c.name,
        )
        .select_from(newest)
        .join(
            schema.measurement,
            and_(timing.job_id == newest.c.job_id, timing.series_id == number),
        )
        .join(schema.job, schema.job.c.id == timing.job_id)
        .join(schema.attempt, and_(attempt.job_id == timing.job_id, attempt.token == timing.token))
        .outerjoin(schema.environment, environment.hash == attempt.environment)
        .outerjoin(schema.build, schema.build.c.sha == attempt.bundle)
        .order_by(timing.measured_at, timing.job_id)
    )
    return fetch(tx, query, SeriesPoint)


def changes(tx: Connection, number: int) -> list[SeriesChange]:
    """The change points of a series, the newest first."""
    change, member = schema.change_point.c, schema.regression_member.c
    numbers = {"change": change.id, "regression": member.regression_id}
    query = (
        select_record(SeriesChange, schema.change_point, **numbers)
        .outerjoin(schema.regression_member, member.change_point_id == change.id)
        .where(change.series_id == number)
        .order_by(change.found_at.desc(), change.id.desc())
    )
    return fetch(tx, query, SeriesChange)


def _columns() -> dict[str, ColumnElement[Any]]:
    """The columns of SeriesRow, by name."""
    table, timing = schema.series.c, schema.measurement.c
    of_series = timing.series_id == table.id
    counted = select(func.count()).select_from(schema.measurement).where(of_series)
    newest = select(func.max(timing.measured_at)).where(of_series)
    return {
        **schema.NAMES,
        **{field.name: table[field.name] for field in fields(SeriesRow) if field.name in table},
        "series": table.id,
        "results": counted.correlate(schema.series).scalar_subquery(),
        "newest_at": newest.correlate(schema.series).scalar_subquery(),
    }


def _select_fitting(chosen: SeriesFilter, what: ColumnElement[int]) -> Select[int]:
    """Select a column of the series that a filter chooses."""
    columns = _columns()
    where: list[ColumnElement[bool]] = []
    for name, globs in chosen.texts.items():
        where.append(or_(*(_is_like(columns[name], glob) for glob in globs)))
    for name, (low, high) in chosen.ranges.items():
        where.append(columns[name].between(max(low, _NARROW[0]), min(high, _NARROW[1])))
    for word in chosen.words:
        pattern = f"*{word}*"
        where.append(or_(*(_is_like(columns[name], pattern) for name in TEXTS)))
    return _select_joined(what).where(*where)


def _select_joined(*columns: ColumnElement[Any]) -> Select[*tuple[Any, ...]]:
    return select(*columns).select_from(schema.named_series)


def _is_like(column: ColumnElement[Any], glob: str) -> ColumnElement[bool]:
    """Whether a text fits a glob of `*` and `?`, whatever its case."""
    escaped = glob.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return column.ilike(escaped.replace("*", "%").replace("?", "_"), escape="\\")
