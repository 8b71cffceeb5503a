"""Programs and their builds: when each came, how its cases ended, and what changed with it.

What a page shows is read for few builds at a time: their jobs are counted from their index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, func, select

from vkbench.job import JobState, Mode
from vkbench.programs.build import Build
from vkbench_db import schema
from vkbench_db.rows import fetch
from vkbench_db.work.builds import files_of, find_build_sha, is_of_build


@dataclass(frozen=True, kw_only=True)
class ProgramRow:
    """A program of which builds are known."""

    program: str
    builds: int
    series: int  # of its cases on all devices
    devices: int
    newest: str  # what people call the build that came last
    newest_sha: str
    added_at: float  # when it came


@dataclass(frozen=True, kw_only=True)
class BuildRow:
    """A build, and who ran it first."""

    sha: str
    program: str
    name: str
    added_at: float
    files: Sequence[Mapping[str, Any]]  # path, sha and nbytes of each
    bytes: int  # equal files count once
    first_run: int | None = None
    first_user: str = ""

    @property
    def is_name_alone(self) -> bool:
        """Whether it is known by its name alone, of imported results."""
        return Build(program=self.program, files=files_of(self.files)).is_name_alone


@dataclass(frozen=True, kw_only=True)
class BuildOnDevice:
    """How a build's cases ended on a device, and which changes came with it there."""

    sha: str
    device: str  # key
    device_name: str
    host: str
    results: int
    wrong: int
    failed: int
    newest_at: float
    imported: int = 0  # of the results
    before: str = ""  # the build before it that has results there; "" for the first one
    slower: int = 0  # confirmed changes of times
    faster: int = 0
    became_wrong: int = 0  # of cases that passed before
    became_failed: int = 0
    uncertain: int = 0  # suspected, being measured again, or ambiguous


@dataclass(frozen=True, kw_only=True)
class BuildChange:
    """A change that came with a build."""

    sha: str
    change: int
    state: str
    direction: str
    cause: str
    ratio: float | None  # new over old
    low: float | None
    high: float | None
    p: float | None
    host: str
    device: str  # key
    device_name: str
    case_name: str
    variant: str
    metric: str
    series: int
    before_bundle: str  # hash of the build before it
    before_job: int
    after_job: int
    regression: int | None
    found_at: float


_UNCERTAIN = ("suspected", "confirming", "ambiguous")
_CONFIRMED = "confirmed"
LOOK_BACK = 10  # builds among which the one before is looked for


def programs(tx: Connection) -> list[ProgramRow]:
    """The programs that have builds, the newest build's first."""
    build, series = schema.build.c, schema.series.c
    every = tx.execute(
        select(build.program, build.sha, build.name, build.added_at).order_by(
            build.added_at.desc(), build.sha.desc()
        )
    ).all()
    counts = {
        row.variant: row
        for row in tx.execute(
            select(
                series.variant,
                func.count().label("series"),
                func.count(series.device_id.distinct()).label("devices"),
            )
            .where(series.variant.in_({row.program for row in every}))
            .group_by(series.variant)
        )
    }
    newest = {row.program: row for row in reversed(every)}
    return [
        ProgramRow(
            program=program,
            builds=sum(row.program == program for row in every),
            series=counts[program].series if program in counts else 0,
            devices=counts[program].devices if program in counts else 0,
            newest=newest[program].name,
            newest_sha=newest[program].sha,
            added_at=newest[program].added_at,
        )
        for program in dict.fromkeys(row.program for row in every)
    ]


def builds(tx: Connection, program: str = "") -> list[BuildRow]:
    """The builds of a program, or of all, in the order of their adding."""
    build = schema.build.c
    query = select(schema.build).order_by(build.added_at, build.sha)
    rows = tx.execute(query.where(build.program == program) if program else query).mappings()
    return [
        BuildRow(
            **{name: row[name] for name in ("sha", "program", "name", "added_at", "files")},
            bytes=Build(program=row["program"], files=files_of(row["files"])).nbytes,
        )
        for row in rows
    ]


def build(tx: Connection, word: str) -> BuildRow:
    """The build of a name or a hash, with its first run."""
    sha = find_build_sha(tx, word)
    job, run = schema.job.c, schema.run.c
    runs = select(job.run_id).where(is_of_build(schema.job), job.bundle == sha)
    first = tx.execute(
        select(run.id, run.user_name)
        .where(run.id.in_(runs))
        .order_by(run.created_at, run.id)
        .limit(1)
    ).first()
    [row] = [stored for stored in builds(tx) if stored.sha == sha]
    return replace(row, first_run=first.id, first_user=first.user_name) if first else row


def builds_on_devices(
    tx: Connection, ordered: Sequence[str], shown: Collection[str]
) -> list[BuildOnDevice]:
    """The shown ones of a program's builds on each device that ran them, in the given order.

    `ordered` are all builds of the program in the order of their adding; the one before is looked
    for among the LOOK_BACK ones before those shown.
    """
    first = min((place for place, sha in enumerate(ordered) if sha in shown), default=0)
    rows = _count_results(tx, {*ordered[max(0, first - LOOK_BACK) : first], *shown})
    changes = builds_changes(tx, shown)
    places = {sha: place for place, sha in enumerate(ordered)}
    last: dict[str, str] = {}  # build, by device
    on_devices = []
    for row in sorted(rows, key=lambda row: (places[row.sha], row.host, row.device)):
        came = [change for change in changes if _is_on(change, row)]
        before, last[row.device] = last.get(row.device, ""), row.sha
        if row.sha in shown:
            on_devices.append(_with_changes(replace(row, before=before), came))
    return on_devices


def builds_changes(tx: Connection, shas: Collection[str]) -> list[BuildChange]:
    """The changes that came with builds and were not dismissed, the gravest first."""
    change, series, member = schema.change_point.c, schema.series.c, schema.regression_member.c
    device, case = schema.device.c, schema.kernel_case.c
    query = (
        select(
            *(change.after_bundle.label("sha"), change.id.label("change"), change.state),
            *(change.direction, change.cause, change.ratio, change.low, change.high, change.p),
            *(schema.host.c.name.label("host"), device.key.label("device")),
            *(device.name.label("device_name"), case.name.label("case_name"), series.variant),
            *(series.metric, series.id.label("series"), change.before_bundle, change.before_job),
            *(change.after_job, member.regression_id.label("regression"), change.found_at),
        )
        .select_from(schema.change_point)
        .join(schema.series, series.id == change.series_id)
        .join(schema.device, device.id == series.device_id)
        .join(schema.host, schema.host.c.id == device.host_id)
        .join(schema.kernel_case, case.id == series.case_id)
        .outerjoin(schema.regression_member, member.change_point_id == change.id)
        .where(
            change.after_bundle.in_(shas),
            change.before_bundle != change.after_bundle,
            change.state.in_((_CONFIRMED, *_UNCERTAIN)),
        )
        .order_by(change.id)
    )
    return sorted(fetch(tx, query, BuildChange), key=_by_gravity)


def _by_gravity(change: BuildChange) -> tuple[bool, bool, float]:
    """Confirmed ones before others, verdicts before times, the slowest first."""
    return change.state != _CONFIRMED, change.ratio is not None, -(change.ratio or 1.0)


def _is_on(change: BuildChange, row: BuildOnDevice) -> bool:
    return (change.sha, change.device) == (row.sha, row.device)


def _with_changes(row: BuildOnDevice, changes: Sequence[BuildChange]) -> BuildOnDevice:
    """The row with its changes counted."""
    counts = Counter(change.direction for change in changes if change.state == _CONFIRMED)
    return replace(
        row,
        slower=counts["slower"],
        faster=counts["faster"],
        became_wrong=counts["wrong"],
        became_failed=counts["failed"],
        uncertain=len(changes) - counts.total(),
    )


def _count_results(tx: Connection, shas: Collection[str]) -> list[BuildOnDevice]:
    """Finished checks and timings of builds, by build and device."""
    job, run, device = schema.job.c, schema.run.c, schema.device.c
    query = (
        select(
            job.bundle.label("sha"),
            job.device_id,
            func.count().label("results"),
            func.count().filter(job.state == JobState.WRONG).label("wrong"),
            func.count().filter(job.state == JobState.FAILED).label("failed"),
            func.count().filter(run.imported_at.is_not(None)).label("imported"),
            func.max(job.finished_at).label("newest_at"),
        )
        .join(schema.run, run.id == job.run_id)
        .where(
            *(is_of_build(schema.job), job.bundle.in_(shas), job.finished_at.is_not(None)),
            job.mode.in_((Mode.CORRECTNESS, Mode.PERFORMANCE)),
        )
        .group_by(job.bundle, job.device_id)
        .subquery()
    )
    named = (
        select(
            *(query.c.sha, device.key.label("device"), device.name.label("device_name")),
            *(schema.host.c.name.label("host"), query.c.results, query.c.wrong, query.c.failed),
            *(query.c.newest_at, query.c.imported),
        )
        .join(schema.device, device.id == query.c.device_id)
        .join(schema.host, schema.host.c.id == device.host_id)
    )
    return fetch(tx, named, BuildOnDevice)
