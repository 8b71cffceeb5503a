"""Series: one metric of one case by one code path of one device, and its results in their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from vkbench.programs.build import is_of_build
from vkbench_db import schema
from vkbench_db.batches import batches
from vkbench_db.rows import insert_missing

CHECKED = "bounds checked"  # ends the class of environments in which the device checked them
VERDICT = "verdict"  # metric of the series in which results became wrong or jobs failed


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What stays the same while drivers and kernels change."""

    device_id: int
    case_id: int
    variant: str  # code path that ran; of verdicts the one asked for
    metric: str
    side: str
    environment_class: str
    track: str


@dataclass(frozen=True)
class Point:
    """A result that counts in its series."""

    job: int
    measured_at: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The kernel, bundle and environment of a result: what may explain a change."""

    kernel: str = ""  # SHA-256, as is the bundle
    bundle: str = ""
    environment: str = ""  # hash

    @property
    def is_build(self) -> bool:
        """Whether a build of a program computed it."""
        return is_of_build(self.kernel, self.bundle)

    @property
    def is_told(self) -> bool:
        """Whether a file told the result of a build, and nothing of the software there."""
        return self.is_build and not self.environment


def series_ids(tx: Connection, given: Iterable[Identity]) -> dict[Identity, int]:
    """Series ids by identity; new series are stored."""
    identities = set(given)
    known = _find_known_series(tx, identities)
    missing = [asdict(identity) for identity in sorted(identities - known.keys(), key=_order)]
    if missing:
        insert_missing(tx, schema.series, missing)
        known = _find_known_series(tx, identities)
    return known


def points(tx: Connection, series: int, last: int) -> list[Point]:
    """The last results that count in a series, the oldest first."""
    measurement = schema.measurement.c
    rows = tx.execute(
        _counting(series)
        .order_by(measurement.measured_at.desc(), measurement.job_id.desc())
        .limit(last)
    )
    return [_point(row) for row in rows][::-1]


def points_from(tx: Connection, series: int, job: int, most: int) -> list[Point]:
    """The newest results of a series, none older than that of a job."""
    start = _moment(tx, series, job)
    if start is None:
        return []
    newest = points(tx, series, most)
    return [point for point in newest if (point.measured_at, point.job) >= (start, job)]


def results_since(tx: Connection, series: int, moment: float) -> int:
    """How many results that count came into a series after a moment."""
    newer = _counting(series).where(schema.measurement.c.measured_at > moment).subquery()
    return tx.execute(select(func.count()).select_from(newer)).scalar_one()


def points_until(tx: Connection, series: int, job: int, most: int) -> list[Point]:
    """The last results of a series up to that of a job, which is the last of them."""
    end = _moment(tx, series, job)
    if end is None:
        return []
    measurement = schema.measurement.c
    rows = tx.execute(
        _counting(series)
        .where(
            (measurement.measured_at < end)
            | ((measurement.measured_at == end) & (measurement.job_id <= job))
        )
        .order_by(measurement.measured_at.desc(), measurement.job_id.desc())
        .limit(most)
    )
    return [_point(row) for row in rows][::-1]


def origins(tx: Connection, jobs: Iterable[int]) -> dict[int, Origin]:
    """The origin of each job's result, by job."""
    job, attempt = schema.job.c, schema.attempt.c
    by_job: dict[int, Origin] = {}
    for batch in batches(sorted(set(jobs))):
        rows = tx.execute(
            select(job.id, attempt.kernel_sha, attempt.bundle, attempt.environment)
            .join(schema.attempt, schema.is_settling)
            .where(job.id.in_(batch))
        )
        by_job |= {
            row.id: Origin(kernel=row.kernel_sha, bundle=row.bundle, environment=row.environment)
            for row in rows
        }
    return by_job


def _point(row: Row[int, float | None, float]) -> Point:
    return Point(row.job_id, row.measured_at or 0.0, row.seconds)


def _moment(tx: Connection, series: int, job: int) -> float | None:
    measurement = schema.measurement.c
    of_job = (measurement.series_id == series, measurement.job_id == job)
    return tx.execute(select(measurement.measured_at).where(*of_job)).scalar()


def _counting(series: int) -> Select[int, float | None, float]:
    measurement = schema.measurement.c
    return select(measurement.job_id, measurement.measured_at, measurement.seconds).where(
        measurement.series_id == series, measurement.flag == ""
    )


def _find_known_series(tx: Connection, identities: set[Identity]) -> dict[Identity, int]:
    series = schema.series.c
    known: dict[Identity, int] = {}
    names = ("device_id", "case_id", "variant", "metric", "side", "environment_class", "track")
    for cases in batches(sorted({identity.case_id for identity in identities})):
        columns = [schema.series.c[name] for name in names]
        rows: Sequence[Any] = tx.execute(
            select(series.id, *columns).where(series.case_id.in_(cases))
        ).all()
        for row in rows:
            identity = Identity(**{name: row._mapping[name] for name in names})
            if identity in identities:
                known[identity] = row.id
    return known


def _order(identity: Identity) -> tuple[Any, ...]:
    return tuple(asdict(identity).values())
