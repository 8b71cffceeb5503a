"""Who ran what, and what came of it: hosts, bundles, runs, jobs, results."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from vkbench.job import MAIN, State
from vkbench_db.models.model import Json, Model
from vkbench_db.moment import Moment


class Host(Model):
    """A machine with devices."""

    __tablename__ = "host"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)


class Device(Model):
    """A physical or software device of a host, as it last announced itself."""

    __tablename__ = "device"

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)  # 12 hex digits
    host_id: Mapped[int] = mapped_column(ForeignKey("host.id"))
    name: Mapped[str]
    facts: Mapped[Json]  # vkbench.device.DeviceFacts
    paused: Mapped[bool] = mapped_column(default=False)  # the dispatcher sends it nothing
    worker: Mapped[str] = mapped_column(default="")  # who serves it
    bundle: Mapped[str] = mapped_column(default="")  # SHA-256 of the packaged bundle there
    environment: Mapped[str] = mapped_column(default="")  # hash of its environment now
    last_seen: Mapped[float | None] = mapped_column(Moment)
    last_run: Mapped[int] = mapped_column(default=0)  # run that was last served: the round robin


class Environment(Model):
    """The software a measurement depended on."""

    __tablename__ = "environment"

    hash: Mapped[str] = mapped_column(primary_key=True)
    driver: Mapped[str]
    driver_version: Mapped[str]
    facts: Mapped[Json]  # vkbench.device.Environment, whole


class Bundle(Model):
    """A set of compiled kernels."""

    __tablename__ = "bundle"

    sha: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    manifest: Mapped[str]
    created_at: Mapped[float] = mapped_column(Moment)


class Blob(Model):
    """One SPIR-V module."""

    __tablename__ = "blob"

    sha: Mapped[str] = mapped_column(primary_key=True)
    data: Mapped[bytes]  # zlib


class BundleBlob(Model):
    """Which blobs a bundle holds."""

    __tablename__ = "bundle_blob"

    bundle: Mapped[str] = mapped_column(ForeignKey("bundle.sha"), primary_key=True)
    blob: Mapped[str] = mapped_column(ForeignKey("blob.sha"), primary_key=True)


class KernelCase(Model):
    """A case and the parts of its name; `case` itself is a word of SQL."""

    __tablename__ = "kernel_case"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    kernel: Mapped[str]
    format: Mapped[str]
    types: Mapped[str]  # "y=f16"
    shape: Mapped[str]  # "m4096_n1_k4096"
    params: Mapped[str]  # "broadcast=row,layout=strided"


class Run(Model):
    """One submission; its state follows from its jobs."""

    __tablename__ = "run"

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[float] = mapped_column(Moment)
    user_name: Mapped[str]  # `user` is a word of SQL
    label: Mapped[str]
    tags: Mapped[Json]
    selection: Mapped[Json]
    mode: Mapped[str]
    priority: Mapped[int]  # higher goes first
    # series that its timings belong to; "" is none: trials, pairs, bisections
    track: Mapped[str] = mapped_column(default=MAIN, server_default=MAIN)
    idempotency_key: Mapped[str | None] = mapped_column(unique=True)
    cancelled_at: Mapped[float | None] = mapped_column(Moment)
    imported_at: Mapped[float | None] = mapped_column(
        Moment
    )  # by an import; what it had left is `elsewhere`


class Job(Model):
    """One case to be checked or timed on one device, and where that stands."""

    __tablename__ = "job"

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("run.id"))
    position: Mapped[int]  # in its run
    device_id: Mapped[int] = mapped_column(ForeignKey("device.id"))
    case_id: Mapped[int] = mapped_column(ForeignKey("kernel_case.id"))
    mode: Mapped[str]
    variant: Mapped[str]  # code path asked for
    bundle: Mapped[str]  # SHA-256, "" for the packaged one
    limit_seconds: Mapped[float]
    measure_seconds: Mapped[float]
    noise: Mapped[float]
    estimate_seconds: Mapped[float]
    # of a paired job: SHA-256 of the bundle that `bundle` is compared with, by which metric, and
    # which of them begins
    against: Mapped[str] = mapped_column(default="", server_default="")
    metric: Mapped[str] = mapped_column(default="", server_default="")
    new_first: Mapped[bool] = mapped_column(default=False, server_default=false())
    state: Mapped[str] = mapped_column(default=State.QUEUED)
    token: Mapped[int] = mapped_column(default=0)  # of its last dispatch
    tries: Mapped[int] = mapped_column(default=0)  # attempts that ran and did not settle it
    dispatches: Mapped[int] = mapped_column(default=0)
    dispatched_at: Mapped[float | None] = mapped_column(Moment)
    finished_at: Mapped[float | None] = mapped_column(Moment)  # never of a cancelled one
    settled_token: Mapped[int | None]  # the attempt that decided it
    cause: Mapped[str] = mapped_column(default="")  # how the last unsettled attempt ended
    reason: Mapped[str] = mapped_column(default="")
    source: Mapped[Json | None] = mapped_column(
        JSON(none_as_null=True)
    )  # vkbench.job.Source of the weights that the case names

    __table_args__ = (
        UniqueConstraint("run_id", "position"),
        # the pick: runs that have queued jobs on a device, then the first jobs of each
        Index(None, "device_id", "state", "run_id", "id"),
        Index(None, "run_id", "state"),  # progress
        # results, newest first: all, a device's, a run's
        *(
            Index(
                name,
                *columns,
                sqlite_where=text("finished_at IS NOT NULL"),
                postgresql_where=text("finished_at IS NOT NULL"),
            )
            for name, columns in (
                ("ix_job_finished", ("finished_at", "id")),
                ("ix_job_device_finished", ("device_id", "finished_at")),
                ("ix_job_run_finished", ("run_id", "finished_at", "id")),
                # the newest of each series: v_latest
                ("ix_job_series", ("case_id", "device_id", "mode", "variant", "finished_at", "id")),
            )
        ),
    )


class Attempt(Model):
    """One dispatch of a job that came back."""

    __tablename__ = "attempt"

    job_id: Mapped[int] = mapped_column(ForeignKey("job.id"), primary_key=True)
    token: Mapped[int] = mapped_column(primary_key=True)
    outcome: Mapped[str]
    reason: Mapped[str]
    variant: Mapped[str]  # code path that ran
    kernel_sha: Mapped[str]
    bundle: Mapped[str] = mapped_column(default="", server_default="")  # SHA-256, never ""
    # no foreign key: a result may arrive before its worker's announcement does
    environment: Mapped[str]
    worker: Mapped[str]
    started_at: Mapped[float | None] = mapped_column(Moment)
    seconds: Mapped[float]
    telemetry: Mapped[Json]
    recorded_at: Mapped[float] = mapped_column(Moment)

    # what ran with a bundle, or under a driver: comparisons of those
    __table_args__ = (Index(None, "bundle"), Index(None, "environment"))


class Verdict(Model):
    """How the settling attempt's output compared; fields are vkbench.result.Verdict's."""

    __tablename__ = "verdict"

    job_id: Mapped[int] = mapped_column(primary_key=True)
    token: Mapped[int]
    passed: Mapped[bool]
    reason: Mapped[str]
    path: Mapped[str]
    nmse: Mapped[float | None]
    nmse_limit: Mapped[float]
    max_abs: Mapped[float | None]
    max_abs_limit: Mapped[float]
    compared: Mapped[int] = mapped_column(BigInteger)
    total: Mapped[int] = mapped_column(BigInteger)
    nonfinite: Mapped[int] = mapped_column(BigInteger)
    unwritten: Mapped[int] = mapped_column(BigInteger)
    guard_bytes: Mapped[int] = mapped_column(BigInteger)
    unrepeated: Mapped[int] = mapped_column(BigInteger)
    first_bad: Mapped[str]

    __table_args__ = (
        ForeignKeyConstraint(["job_id", "token"], ["attempt.job_id", "attempt.token"]),
    )


class Measurement(Model):
    """One metric of the settling attempt; fields are vkbench.result.Timing's."""

    __tablename__ = "measurement"

    job_id: Mapped[int] = mapped_column(primary_key=True)
    metric: Mapped[str] = mapped_column(primary_key=True)
    token: Mapped[int]
    seconds: Mapped[float]
    mad: Mapped[float]
    low: Mapped[float]
    high: Mapped[float]
    confidence: Mapped[float]
    best: Mapped[float]
    count: Mapped[int]
    launches: Mapped[int]
    stop: Mapped[str]
    clock: Mapped[str]
    bytes_moved: Mapped[int] = mapped_column(BigInteger)
    flops: Mapped[int] = mapped_column(BigInteger)
    warnings: Mapped[list[str]] = mapped_column(JSON)
    samples: Mapped[bytes]  # float32, little-endian, zlib
    series_id: Mapped[int | None] = mapped_column(ForeignKey("series.id"))  # once it is placed
    measured_at: Mapped[float | None] = mapped_column(Moment)  # when its job ended
    # of what the device's roof allows, by its calibration; None where there is none
    roof_fraction: Mapped[float | None]
    path_fraction: Mapped[float | None]  # of what its code path's own arithmetic could do
    # why it does not count in its series ("throttled", "device off"); "" where it does
    flag: Mapped[str] = mapped_column(default="", server_default="")

    __table_args__ = (
        ForeignKeyConstraint(["job_id", "token"], ["attempt.job_id", "attempt.token"]),
        # the history of a series, read from here alone: its rows lie all over the table
        Index("ix_measurement_history", *("series_id", "measured_at", "job_id", "seconds", "flag")),
    )
