"""Bundles, runs, jobs and results, and the public view of results."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Named,
    Table,
    Text,
    UniqueConstraint,
    false,
)

from vkbench.job import MAIN, ArmKind, JobState, Mode
from vkbench.result import Side
from vkbench.run import RunKind
from vkbench_db.schema.metadata import TABLES, VIEWS, Columns, Json, Moment

# The condition of a partial index, which a migration creates. `postgresql_where` would load the
# PostgreSQL dialect (30 ms) into every command.
FINISHED_ONLY = {"where": "finished_at IS NOT NULL"}
UNPASSED_ONLY = {"where": "outcome <> 'passed'"}
BUILDS_ONLY = {"where": "arm_kind = 'build'"}


class BundleColumns(Columns):
    """A set of compiled kernels."""

    sha: Named[str] = Column(Text, primary_key=True)
    name: Named[str] = Column(Text)
    manifest: Named[str] = Column(Text)
    created_at: Named[float] = Column(Moment)
    made_of: Named[list[str]] = Column(JSON(), default=list, server_default="[]")  # git revisions


bundle = Table("bundle", TABLES, BundleColumns)


class BlobColumns(Columns):
    """One SPIR-V module of a bundle."""

    sha: Named[str] = Column(Text, primary_key=True)
    data: Named[bytes] = Column(LargeBinary)  # zlib


blob = Table("blob", TABLES, BlobColumns)


class BundleBlobColumns(Columns):
    """A blob that a bundle contains."""

    bundle: Named[str] = Column(Text, ForeignKey("bundle.sha"), primary_key=True)
    blob: Named[str] = Column(Text, ForeignKey("blob.sha"), primary_key=True)


bundle_blob = Table("bundle_blob", TABLES, BundleBlobColumns)


class BuildColumns(Columns):
    """A version of a program; its files lie in a store of builds."""

    sha: Named[str] = Column(Text, primary_key=True)  # SHA-256 of the list of its files
    program: Named[str] = Column(Text)
    name: Named[str] = Column(Text)
    files: Named[Json] = Column(JSON())  # vkbench.programs.build.BuildFile of each
    added_at: Named[float] = Column(Moment)


build = Table("build", TABLES, BuildColumns)


class KernelCaseColumns(Columns):
    """A case and the parts of its name; the table is not `case`, which is a keyword of SQL."""

    id: Named[int] = Column(primary_key=True)
    name: Named[str] = Column(Text, unique=True)
    kernel: Named[str] = Column(Text)
    format: Named[str] = Column(Text)
    types: Named[str] = Column(Text)  # "y=f16"
    shape: Named[str] = Column(Text)  # "m4096_n1_k4096"
    params: Named[str] = Column(Text)  # "broadcast=row,layout=strided"


kernel_case = Table("kernel_case", TABLES, KernelCaseColumns)


class RunColumns(Columns):
    """One submission; its state follows from its jobs."""

    id: Named[int] = Column(primary_key=True)
    uuid: Named[str] = Column(Text, unique=True)
    created_at: Named[float] = Column(Moment)
    user_name: Named[str] = Column(Text)  # `user` is a keyword of SQL
    label: Named[str] = Column(Text)
    kind: Named[str] = Column(Text, default=RunKind.WORK, server_default=RunKind.WORK)
    about: Named[Json] = Column(JSON(), server_default="{}")  # what its kind keeps, see RunKind
    tags: Named[Json] = Column(JSON())  # its user's
    selection: Named[Json] = Column(JSON())
    mode: Named[str] = Column(Text)
    priority: Named[int]  # higher goes first
    # history to add its timings to; "" keeps trials, pairs and bisections out of every series
    track: Named[str] = Column(Text, default=MAIN, server_default=MAIN)
    idempotency_key: Named[str | None] = Column(Text, unique=True)
    cancelled_at: Named[float | None] = Column(Moment)
    # when an import brought it; its unfinished jobs have the state `elsewhere`
    imported_at: Named[float | None] = Column(Moment)


_KINDS = ", ".join(f"'{kind}'" for kind in RunKind)
run = Table("run", TABLES, RunColumns, CheckConstraint(f"kind IN ({_KINDS})", "ck_run_kind"))


class JobColumns(Columns):
    """One case to check or time on one device, and the state of that work."""

    id: Named[int] = Column(primary_key=True)
    run_id: Named[int] = Column(ForeignKey("run.id"))
    position: Named[int]  # in its run
    device_id: Named[int] = Column(ForeignKey("device.id"))
    case_id: Named[int] = Column(ForeignKey("kernel_case.id"))
    mode: Named[str] = Column(Text)
    variant: Named[str] = Column(Text)  # code path asked for
    bundle: Named[str] = Column(Text)  # SHA-256 of what computes it, "" for the packaged bundle
    arm_kind: Named[str] = Column(Text, default=ArmKind.BUNDLE, server_default=ArmKind.BUNDLE)
    limit_seconds: Named[float] = Column(Float)
    measure_seconds: Named[float] = Column(Float)
    noise: Named[float] = Column(Float)
    estimate_seconds: Named[float] = Column(Float)
    # of a paired job: SHA-256 of the bundle to compare `bundle` with, the metric to compare, and
    # whether `bundle` begins
    against: Named[str] = Column(Text, default="", server_default="")
    metric: Named[str] = Column(Text, default="", server_default="")
    new_first: Named[bool] = Column(default=False, server_default=false())
    state: Named[str] = Column(Text, default=JobState.QUEUED)
    token: Named[int] = Column(default=0)  # of the last dispatch
    tries: Named[int] = Column(default=0)  # attempts that ran and did not settle the job
    dispatches: Named[int] = Column(default=0)
    dispatched_at: Named[float | None] = Column(Moment)
    finished_at: Named[float | None] = Column(Moment)  # None for a cancelled job
    settled_token: Named[int | None]  # of the attempt that decided the job
    cause: Named[str] = Column(Text, default="")  # how the last unsettled attempt ended
    reason: Named[str] = Column(Text, default="")
    # vkbench.job.Source of the weights that the case names
    source: Named[Json | None] = Column(JSON(none_as_null=True))
    # SHA-256 of the driver that its kernel runs through, "" for the host's own
    driver: Named[str] = Column(Text, default="", server_default="")


_ARM_KINDS = ", ".join(f"'{kind}'" for kind in ArmKind)
job = Table(
    "job",
    TABLES,
    JobColumns,
    CheckConstraint(f"arm_kind IN ({_ARM_KINDS})", "ck_job_arm_kind"),
    UniqueConstraint("run_id", "position"),
    # the pick: runs that have queued jobs on a device, then the first jobs of each
    Index(None, "device_id", "state", "run_id", "id"),
    Index(None, "run_id", "state"),  # progress
    # results, newest first: of all jobs, of a device, of a run
    Index("ix_job_finished", "finished_at", "id", info=FINISHED_ONLY),
    Index("ix_job_device_finished", "device_id", "finished_at", info=FINISHED_ONLY),
    Index("ix_job_run_finished", "run_id", "finished_at", "id", info=FINISHED_ONLY),
    # the newest job of each device, case, mode and variant, where `latest` does not say it
    Index(
        "ix_job_series",
        *("case_id", "device_id", "mode", "variant", "finished_at", "id"),
        info=FINISHED_ONLY,
    ),
    # what a build did: all of it, and the newest job of each piece of work
    Index(
        "ix_job_build",
        *("bundle", "case_id", "device_id", "mode", "variant", "finished_at", "id", "state"),
        *("run_id", "arm_kind"),  # the latter for SQLite, which looks it up otherwise
        info=BUILDS_ONLY,
    ),
)


class LatestColumns(Columns):
    """The newest finished job of a device, case, mode and variant; jobs of sweeps do not count."""

    device_id: Named[int] = Column(ForeignKey("device.id"), primary_key=True)
    case_id: Named[int] = Column(ForeignKey("kernel_case.id"), primary_key=True)
    mode: Named[str] = Column(Text, primary_key=True)
    variant: Named[str] = Column(Text, primary_key=True)  # asked for
    job_id: Named[int] = Column(ForeignKey("job.id"))
    state: Named[str] = Column(Text)  # of that job
    finished_at: Named[float] = Column(Moment)


latest = Table(
    "latest",
    TABLES,
    LatestColumns,
    Index(None, "case_id"),  # of a kernel, on all devices
    Index(None, "finished_at", "job_id"),  # newest first
)


class AttemptColumns(Columns):
    """One dispatch of a job that returned a result."""

    job_id: Named[int] = Column(ForeignKey("job.id"), primary_key=True)
    token: Named[int] = Column(primary_key=True)
    outcome: Named[str] = Column(Text)
    reason: Named[str] = Column(Text)
    variant: Named[str] = Column(Text)  # code path that ran, with settings that were named
    settings: Named[str] = Column(Text, default="", server_default="")  # all, named or estimated
    kernel_sha: Named[str] = Column(Text)
    # SHA-256, the packaged bundle's too
    bundle: Named[str] = Column(Text, default="", server_default="")
    # no foreign key: a result may arrive before its worker's announcement does
    environment: Named[str] = Column(Text)
    worker: Named[str] = Column(Text)
    started_at: Named[float | None] = Column(Moment)
    seconds: Named[float] = Column(Float)
    telemetry: Named[Json] = Column(JSON())
    # the most device memory that a whole model took, of the telemetry
    memory_bytes: Named[float | None] = Column(Float)
    recorded_at: Named[float] = Column(Moment)


attempt = Table(
    "attempt",
    TABLES,
    AttemptColumns,
    # comparisons of two bundles, and of two drivers
    Index(None, "bundle"),
    Index(None, "environment"),
    Index("ix_attempt_unpassed", "recorded_at", info=UNPASSED_ONLY),  # is a device to blame?
)


class VerdictColumns(Columns):
    """What vkbench.result.Verdict says of the output of the attempt that settled the job."""

    job_id: Named[int] = Column(primary_key=True)
    token: Named[int]
    passed: Named[bool]
    reason: Named[str] = Column(Text)
    path: Named[str] = Column(Text)
    nmse: Named[float | None] = Column(Float)
    nmse_limit: Named[float] = Column(Float)
    max_abs: Named[float | None] = Column(Float)
    max_abs_limit: Named[float] = Column(Float)
    compared: Named[int] = Column(BigInteger)
    total: Named[int] = Column(BigInteger)
    nonfinite: Named[int] = Column(BigInteger)
    unwritten: Named[int] = Column(BigInteger)
    guard_bytes: Named[int] = Column(BigInteger)
    unrepeated: Named[int] = Column(BigInteger)
    first_bad: Named[str] = Column(Text)
    wrong_arm: Named[str] = Column(Text, default="none", server_default="none")  # of a pair


verdict = Table(
    "verdict",
    TABLES,
    VerdictColumns,
    ForeignKeyConstraint(["job_id", "token"], ["attempt.job_id", "attempt.token"]),
)


class MeasurementColumns(Columns):
    """One vkbench.result.Timing, of a metric and a side, of the attempt that settled the job."""

    job_id: Named[int] = Column(primary_key=True)
    metric: Named[str] = Column(Text, primary_key=True)
    side: Named[str] = Column(Text, primary_key=True, server_default=Side.OURS)
    token: Named[int]
    seconds: Named[float] = Column(Float)
    mad: Named[float] = Column(Float)
    low: Named[float] = Column(Float)
    high: Named[float] = Column(Float)
    confidence: Named[float] = Column(Float)
    best: Named[float] = Column(Float)
    count: Named[int]
    launches: Named[int]
    stop: Named[str] = Column(Text)
    clock: Named[str] = Column(Text)
    bytes_moved: Named[int] = Column(BigInteger)
    flops: Named[int] = Column(BigInteger)
    warnings: Named[list[str]] = Column(JSON())
    samples: Named[bytes] = Column(LargeBinary)  # float32, little-endian, zlib
    series_id: Named[int | None] = Column(ForeignKey("series.id"))  # None until detection places it
    measured_at: Named[float | None] = Column(Moment)  # when the job ended
    # share of what the device can do by its calibration; None without a calibration
    roof_fraction: Named[float | None] = Column(Float)
    # share of what the arithmetic of its code path could do
    path_fraction: Named[float | None] = Column(Float)
    # why its series leaves it out ("throttled", "device off"); "" where the series includes it
    flag: Named[str] = Column(Text, default="", server_default="")


measurement = Table(
    "measurement",
    TABLES,
    MeasurementColumns,
    ForeignKeyConstraint(["job_id", "token"], ["attempt.job_id", "attempt.token"]),
    # the history of a series, read from the index alone: its rows are scattered over the table
    Index("ix_measurement_history", *("series_id", "measured_at", "job_id", "seconds", "flag")),
)


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """A row of the views `v_results` and `v_latest`: a finished job and one of its metrics."""

    host: str
    device: str  # key
    device_name: str
    driver: str | None  # None where nothing ran
    driver_version: str | None
    environment: str | None  # hash
    case_name: str
    kernel: str
    format: str
    types: str
    shape: str
    params: str
    mode: str
    variant: str  # code path asked for
    variant_run: str | None  # code path that ran
    kernel_sha: str | None
    bundle: str
    run: int
    run_uuid: str
    run_label: str
    track: str
    job: int
    state: str
    cause: str
    reason: str
    tries: int
    path: str | None
    nmse: float | None
    max_abs: float | None
    metric: str | None  # None where nothing was timed
    seconds: float | None
    mad: float | None
    low: float | None
    high: float | None
    best: float | None
    count: int | None
    stop: str | None
    gb_per_second: float | None
    gflop_per_second: float | None
    roof_fraction: float | None  # share of what the device can do by its calibration
    warnings: list[str] | None
    flag: str | None  # why the timing's series leaves it out
    series: int | None
    finished_at: float
    path_fraction: float | None  # share of what the arithmetic of its code path could do
    settings: str | None  # of tunable parameters: "split=2,tile=64x64_8x8"
    memory_bytes: float | None  # the most device memory that a whole model took
    side: str | None  # ours, theirs (another program's), old or new (of a pair)
    program: str | None = None  # whose build computed it; None where a kernel did
    build: str | None = None  # what people call that

    @property
    def timing_name(self) -> str:
        """What its timing is called among those of its job.

        Its metric; `old` and `new` in a pair; `ours` beside a peer, whose own has its metric's
        name.
        """
        is_beside = self.side == Side.OURS and self.mode == Mode.PEER
        is_side = is_beside or self.side in (Side.OLD, Side.NEW)
        return (self.side if is_side else self.metric) or ""


_TYPES = {"str": Text, "int": Integer, "float": Float, "list[str]": JSON}


def _view(name: str, record: type[Any]) -> Table:
    """A view whose columns are the fields of its record; names that end in `_at` are moments."""
    columns: list[Column[Any]] = [
        Column(
            field.name,
            Moment if field.name.endswith("_at") else _TYPES[field.type.removesuffix(" | None")],
        )
        for field in fields(record)
    ]
    return Table(name, VIEWS, *columns)


v_results = _view("v_results", ResultRow)
v_latest = _view("v_latest", ResultRow)
