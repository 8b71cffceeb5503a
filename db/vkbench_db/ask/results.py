"""Results with filters: the latest of each case, all of them, those of a run or of a series.

The filters choose jobs from the table of latest results, or from the index of a run or a series.
Only the rows that are shown are joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, Select, and_, func, or_, select

from vkbench.errors import UnknownName
from vkbench.job import CHECKS, FINISHED, Mode
from vkbench.result import Side
from vkbench.run import RunKind
from vkbench.words import names
from vkbench_db import schema
from vkbench_db.ask.devices.names import device_keys
from vkbench_db.ask.driver_names import find_driver, name_drivers
from vkbench_db.batches import batches
from vkbench_db.rows import fetch
from vkbench_db.schema import ResultRow as ResultRow
from vkbench_db.work.builds import find_all_build_shas, is_of_build, names_of_builds
from vkbench_db.work.bundles import read_revisions

_MODES = (*CHECKS, Mode.COMPILE, Mode.PERFORMANCE, Mode.PAIRED, Mode.PEER, Mode.SHARDED)
_MOST_ID = 2**31 - 1
_SWEEPS = select(schema.run.c.id).where(schema.run.c.kind == RunKind.SWEEP)


@dataclass(frozen=True, kw_only=True)
class ResultFilter:
    """Which results are asked for: each empty field leaves all."""

    device: Sequence[str] = ()  # selectors
    kernel: Sequence[str] = ()  # globs, as are formats, cases and variants
    format: Sequence[str] = ()
    case: Sequence[str] = ()
    variant: Sequence[str] = ()  # asked for
    program: Sequence[str] = ()  # globs of programs: what their builds computed
    build: Sequence[str] = ()  # names or hashes of builds; the latest result is that of each
    # names, versions or hashes of drivers; the latest result is that of each
    driver: Sequence[str] = ()
    mode: Sequence[str] = ()
    state: Sequence[str] = ()
    run: int | None = None  # its results, and not the latest alone
    series: int | None = None  # likewise
    history: bool = False  # all results, and not the latest alone
    trials: bool = False  # those of sweeps too, which count as if they were not there otherwise

    @property
    def is_latest(self) -> bool:
        """Whether only the latest result of each case is meant."""
        return self.is_of_all_runs and not self.history

    @property
    def is_of_all_runs(self) -> bool:
        """Whether neither a run nor a series is named."""
        return self.run is None and self.series is None


@dataclass(frozen=True, kw_only=True)
class ResultCount:
    """How many results a case has."""

    case_name: str
    shape: str
    mode: str
    results: int


EVERY = ResultFilter(history=True, trials=True)
FILTERS = (
    *("device", "kernel", "format", "case", "variant", "program", "build", "driver"),
    *("mode", "state"),
    *("run", "series"),
)
SORTS = (
    *("finished_at", "case", "kernel", "format", "mode", "variant", "verdict", "host"),
    *("device_name", "run", "job", "nmse", "hot_seconds", "cold_seconds", "roof_fraction"),
)


def count(tx: Connection, chosen: ResultFilter) -> int:
    """How many jobs a filter chooses."""
    source, where = _choose_jobs(tx, chosen)
    return tx.execute(select(func.count()).select_from(source).where(*where)).scalar() or 0


def page(
    tx: Connection,
    chosen: ResultFilter,
    *,
    sort: str = "-finished_at",
    limit: int | None = 100,
    offset: int = 0,
) -> list[ResultRow]:
    """The results of a page of jobs, in the order asked for: `sort` is of SORTS, "-" in front."""
    source, where = _choose_jobs(tx, chosen)
    number = _number(source)
    key = sort.removeprefix("-")
    if key not in SORTS:
        raise UnknownName("column to sort by", key, names.nearest(key, SORTS), SORTS)
    joined, column = _sorted_by(key, source)
    is_down = sort.startswith("-")
    order: list[ColumnElement[Any]] = [column.desc() if is_down else column.asc()]
    if key in _MAYBE:
        order = [column.is_(None), *order]  # what is not known comes last, either way
    jobs = tx.execute(
        select(number)
        .select_from(joined)
        .where(*where)
        .order_by(*order, number.desc() if is_down else number)
        .limit(limit)
        .offset(offset)
    )
    return results_of(tx, jobs.scalars().all())


def results(
    tx: Connection, chosen: ResultFilter = EVERY, *, limit: int | None = 50
) -> list[ResultRow]:
    """Results, the newest first; those of a series are of its metric alone."""
    rows = page(tx, chosen, limit=limit)
    return [row for row in rows if chosen.series in (None, row.series)][:limit]


def count_trials(tx: Connection, chosen: ResultFilter) -> list[ResultCount]:
    """How many results of sweeps each case has that a filter leaves out."""
    if chosen.trials or not chosen.is_of_all_runs:
        return []
    job, case = schema.job.c, schema.kernel_case.c
    _, where = _choose_jobs(tx, replace(chosen, history=True, trials=True))
    counts = (
        select(case.name.label("case_name"), case.shape, job.mode, func.count().label("results"))
        .join(schema.kernel_case, case.id == job.case_id)
        .where(job.run_id.in_(_SWEEPS), *where)
        .group_by(case.name, case.shape, job.mode)
    )
    return fetch(tx, counts, ResultCount)


def results_of(tx: Connection, jobs: Sequence[int]) -> list[ResultRow]:
    """The results of jobs, in their order."""
    view = schema.v_results.c
    rows: list[ResultRow] = []
    for page in batches(jobs, 1000):
        query = select(schema.v_results).where(view.job.in_(page)).order_by(view.metric, view.side)
        rows += fetch(tx, query, ResultRow)
    places = {job: place for place, job in enumerate(jobs)}
    return sorted(rows, key=lambda row: places[row.job])


def read_revisions_of(tx: Connection, rows: Iterable[ResultRow]) -> dict[str, list[str]]:
    """The git revisions that the bundles of results were made of, by these bundles' hashes."""
    return read_revisions(tx, {row.bundle for row in rows})


def choices(tx: Connection) -> dict[str, list[str]]:
    """What there is to choose from: kernels, formats, modes, states, programs, builds, drivers."""
    case = schema.kernel_case.c
    return {
        "program": sorted(tx.execute(select(schema.build.c.program).distinct()).scalars()),
        "build": sorted(filter(None, names_of_builds(tx).values())),
        "driver": sorted({driver.versioned for driver in name_drivers(tx).values()}),
        "kernel": sorted(tx.execute(select(case.kernel).distinct()).scalars()),
        "format": sorted(tx.execute(select(case.format).distinct()).scalars()),
        "mode": [str(mode) for mode in _MODES],
        "state": [str(state) for state in FINISHED],
    }


def _choose_jobs(
    tx: Connection, chosen: ResultFilter
) -> tuple[FromClause, list[ColumnElement[bool]]]:
    """The table of jobs to choose from, and the conditions."""
    builds = [sha for word in chosen.build for sha in find_all_build_shas(tx, word)]
    drivers = sorted({known for word in chosen.driver for known in find_driver(tx, word)})
    # The table of latest results knows no sweeps, and no build or driver but the last one.
    is_noted = chosen.is_latest and not chosen.trials and not (builds or drivers)
    source: FromClause = schema.latest if is_noted else schema.job
    work, case = source.c, schema.kernel_case.c
    where: list[ColumnElement[bool]] = [work.finished_at.is_not(None)]
    if chosen.is_latest and not is_noted:
        where.append(_is_newest(of_each_build=bool(builds), drivers=drivers))
    if (chosen.history or builds or drivers) and chosen.is_of_all_runs and not chosen.trials:
        where.append(work.run_id.not_in(_SWEEPS))
    if chosen.run is not None:
        where.append(work.run_id == min(max(chosen.run, 0), _MOST_ID))
    if chosen.series is not None:
        of_series = schema.measurement.c.series_id == min(max(chosen.series, 0), _MOST_ID)
        where.append(work.id.in_(select(schema.measurement.c.job_id).where(of_series)))
    if chosen.device:
        keys = device_keys(tx, chosen.device)
        ids = tx.execute(select(schema.device.c.id).where(schema.device.c.key.in_(keys)))
        where.append(work.device_id.in_(ids.scalars().all()))
    of_case: list[ColumnElement[bool]] = []
    for name in ("kernel", "format"):
        if globs := getattr(chosen, name):
            of_case.append(case[name].in_(_match_stored(tx, name, globs)))
    if chosen.case:
        of_case.append(_is_like(case.name, chosen.case))
    if of_case:
        where.append(work.case_id.in_(select(case.id).where(*of_case)))
    if chosen.variant:
        where.append(_is_like(work.variant, chosen.variant))
    if chosen.program:
        where.append(work.variant.in_(_match_programs(tx, chosen.program)))
    if builds:
        where += [is_of_build(source), work.bundle.in_(builds)]
    if drivers:
        where.append(work.id.in_(_jobs_through(drivers)))
    modes = [names.pick(mode, _MODES, "mode") for mode in chosen.mode]
    if modes or chosen.is_latest:  # pairs answer another question, and are shown when asked for
        where.append(work.mode.in_(modes or (Mode.CORRECTNESS, Mode.PERFORMANCE)))
    if chosen.state:
        where.append(
            work.state.in_([names.pick(state, list(FINISHED), "state") for state in chosen.state])
        )
    return source, where


def _jobs_through(environments: Sequence[str]) -> Select[int]:
    """The jobs that an attempt in one of these environments settled."""
    attempt = schema.attempt.c
    return (
        select(schema.job.c.id)
        .join(schema.attempt, schema.is_settling)
        .where(attempt.environment.in_(environments))
    )


def _is_newest(*, of_each_build: bool = False, drivers: Sequence[str] = ()) -> ColumnElement[bool]:
    """Whether a job is the newest of its device, case, mode and variant, those of sweeps too."""
    job, others = schema.job.c, schema.job.alias("newest")
    other = others.c
    query = select(other.id).where(
        *(other.case_id == job.case_id, other.device_id == job.device_id),
        *(other.mode == job.mode, other.variant == job.variant),
        other.finished_at.is_not(None),
    )
    if of_each_build:
        query = query.where(other.bundle == job.bundle, is_of_build(others))
    if drivers:
        query = query.where(other.id.in_(_jobs_through(drivers)))
    return job.id == (
        query.order_by(other.finished_at.desc(), other.id.desc())
        .limit(1)
        .correlate(schema.job)
        .scalar_subquery()
    )


def _number(source: FromClause) -> ColumnElement[int]:
    return source.c.job_id if source is schema.latest else source.c.id


_MAYBE = ("nmse", "hot_seconds", "cold_seconds", "roof_fraction")


def _sorted_by(key: str, source: FromClause) -> tuple[FromClause, ColumnElement[Any]]:
    """The table with what a column needs, and the column."""
    work, number = source.c, _number(source)
    timing = schema.measurement.c
    if key in ("case", "kernel", "format"):
        case = schema.kernel_case
        return (
            source.join(case, case.c.id == work.case_id),
            case.c["name" if key == "case" else key],
        )
    if key in ("host", "device_name"):
        device, host = schema.device, schema.host
        joined = source.join(device, device.c.id == work.device_id)
        return joined.join(host, host.c.id == device.c.host_id), (
            host.c.name if key == "host" else device.c.name
        )
    if key == "nmse":
        verdict = schema.verdict
        return source.outerjoin(verdict, verdict.c.job_id == number), verdict.c.nmse
    if key in _MAYBE:
        metric = "cold" if key == "cold_seconds" else "hot"
        is_shown = or_(
            timing.side == Side.THEIRS, and_(timing.side == Side.OURS, work.mode != Mode.PEER)
        )
        joined = source.outerjoin(
            schema.measurement, and_(timing.job_id == number, timing.metric == metric, is_shown)
        )
        return joined, timing.roof_fraction if key == "roof_fraction" else timing.seconds
    if key == "run" and source is schema.latest:
        return source.join(schema.job, schema.job.c.id == number), schema.job.c.run_id
    own = {"verdict": "state", "run": "run_id"}
    return source, number if key == "job" else work[own.get(key, key)]


def _match_programs(tx: Connection, globs: Sequence[str]) -> list[str]:
    """The programs with builds that globs name: the jobs of these have them as their variants."""
    known = sorted(tx.execute(select(schema.build.c.program).distinct()).scalars())
    return sorted({name for glob in globs for name in names.matching(glob, known, "program")})


def _match_stored(tx: Connection, column: str, globs: Sequence[str]) -> list[str]:
    every = sorted(tx.execute(select(schema.kernel_case.c[column]).distinct()).scalars())
    return sorted({name for glob in globs for name in names.matching(glob, every, column)})


def _is_like(column: ColumnElement[str], globs: Sequence[str]) -> ColumnElement[bool]:
    return or_(*(func.lower(column).like(_pattern(glob), escape="\\") for glob in globs))


def _pattern(glob: str) -> str:
    """A glob of `*` and `?` as LIKE has it; other characters mean themselves."""
    return "".join(_LIKE.get(letter, letter) for letter in glob.casefold())


_LIKE: Mapping[str, str] = {"*": "%", "?": "_", "%": "\\%", "_": "\\_", "\\": "\\\\"}
