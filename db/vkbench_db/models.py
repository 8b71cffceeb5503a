"""The tables. Portable types only; every index stands beside the query that needs it.

    host ── device ──┐                       environment (by hash)
                     ├── job ── attempt      one a dispatch that came back
    run ─────────────┤    ├── verdict        of the attempt that settled the job
    kernel_case ─────┘    └── measurement    one a timing metric, of the same attempt
    bundle ── bundle_blob ── blob            by SHA-256

    measurement ── series ── change_point ── regression_member ── regression
                              └── confirmation (a run of pairs)

What changed, and how sure that is: a series is what stays the same (device, case, code path,
metric, environment class, track) while driver and kernels change. Change points, regressions and
bisections are never rewritten: each step is a row of its own in a table of events.

A job has at most one verdict and one measurement of each metric: their primary keys hold
"the first settling result wins" even where code does not.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    MetaData,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from vkbench.job import MAIN, State
from vkbench_db.moment import Moment

Json = dict[str, Any]


class Model(DeclarativeBase):
    """What all tables share: named constraints, so that later migrations can speak of them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy's own form
        str: Text,
        float: Float,
        bytes: LargeBinary,
        Json: JSON,
    }


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
    )  # its jobs are another database's to send


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
    # of a paired job: SHA-256 of the bundle that `bundle` is compared with, and by which metric
    against: Mapped[str] = mapped_column(default="", server_default="")
    metric: Mapped[str] = mapped_column(default="", server_default="")
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
    # why it does not count in its series ("throttled", "device off"); "" where it does
    flag: Mapped[str] = mapped_column(default="", server_default="")

    __table_args__ = (
        ForeignKeyConstraint(["job_id", "token"], ["attempt.job_id", "attempt.token"]),
        # the history of a series, read from here alone: its rows lie all over the table
        Index("ix_measurement_history", *("series_id", "measured_at", "job_id", "seconds", "flag")),
    )


class Fresh(Model):
    """A job that was settled and is not placed in its series yet: written with the result."""

    __tablename__ = "fresh"

    job_id: Mapped[int] = mapped_column(ForeignKey("job.id"), primary_key=True)


class Series(Model):
    """One metric of one case by one code path of one device: what is compared with itself."""

    __tablename__ = "series"

    id: Mapped[int] = mapped_column(primary_key=True)
    device_id: Mapped[int] = mapped_column(ForeignKey("device.id"))
    case_id: Mapped[int] = mapped_column(ForeignKey("kernel_case.id"))
    variant: Mapped[str]  # code path that ran
    metric: Mapped[str]  # hot | cold; "verdict" where results became wrong
    environment_class: Mapped[str]  # clock policy
    track: Mapped[str]
    # The screen stands after this result; its state is vkbench_db.statistics.screen's.
    screened_at: Mapped[float | None] = mapped_column(Moment)
    screened_job: Mapped[int | None]
    screen: Mapped[Json | None] = mapped_column(JSON(none_as_null=True))
    # what its noise is like, and what can be seen through it: vkbench_db.statistics.noise
    sigma: Mapped[float | None]  # relative
    noise_kind: Mapped[str] = mapped_column(default="")
    autocorrelation: Mapped[float | None]
    smallest_effect: Mapped[float | None]  # changes below are not seen
    profiled_at: Mapped[float | None] = mapped_column(Moment)  # its newest result's measured_at
    # when the pass over its whole history is due; None while nothing new came since the last one
    scan_due_at: Mapped[float | None] = mapped_column(Moment)

    __table_args__ = (
        UniqueConstraint(
            *("case_id", "device_id", "variant", "metric", "environment_class", "track"),
            name="uq_series_identity",
        ),
        Index(None, "device_id"),
        Index(None, "scan_due_at"),
    )


class Calibration(Model):
    """What a device reaches in one environment: the roofs that results are held against."""

    __tablename__ = "calibration"

    id: Mapped[int] = mapped_column(primary_key=True)
    device_id: Mapped[int] = mapped_column(ForeignKey("device.id"))
    environment: Mapped[str]  # hash
    measured_at: Mapped[float] = mapped_column(Moment)
    run_id: Mapped[int] = mapped_column(ForeignKey("run.id"))
    read_bytes: Mapped[float | None]  # a second, as are all rates
    copy_bytes: Mapped[float | None]  # read and written
    fma_f32: Mapped[float | None]  # operations: two an fma
    fma_f16: Mapped[float | None]
    dot_i8: Mapped[float | None]
    matrices: Mapped[Json]  # operations a second by kind of cooperative matrices
    launch_seconds: Mapped[float | None]
    tick_seconds: Mapped[float | None]
    noise: Mapped[float | None]  # relative sigma of the canary beside itself

    __table_args__ = (
        UniqueConstraint("run_id", "device_id"),
        Index(None, "device_id", "environment", "measured_at"),
    )


class Canary(Model):
    """A pinned case, timed before a batch: whether the device is what it was."""

    __tablename__ = "canary"

    id: Mapped[int] = mapped_column(primary_key=True)
    device_id: Mapped[int] = mapped_column(ForeignKey("device.id"))
    environment: Mapped[str]  # hash
    measured_at: Mapped[float] = mapped_column(Moment)
    seconds: Mapped[float]
    deviation: Mapped[float | None]  # from its own history, in sigmas; None without one
    is_off: Mapped[bool]

    __table_args__ = (
        UniqueConstraint("device_id", "measured_at"),
        Index(None, "device_id", "environment", "measured_at"),
    )


class Baseline(Model):
    """A name for what others are compared with."""

    __tablename__ = "baseline"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    kind: Mapped[str]  # run | bundle | date
    value: Mapped[str]  # UUID, SHA-256, or a moment in ISO 8601
    created_at: Mapped[float] = mapped_column(Moment)
    user_name: Mapped[str]


class ChangePoint(Model):
    """Where a series changed, or seemed to: between two neighbouring results."""

    __tablename__ = "change_point"

    id: Mapped[int] = mapped_column(primary_key=True)
    series_id: Mapped[int] = mapped_column(ForeignKey("series.id"))
    method: Mapped[str]  # screen | history | baseline | verdict
    direction: Mapped[str]  # slower | faster | wrong
    before_job: Mapped[int] = mapped_column(ForeignKey("job.id"))  # the last good one
    after_job: Mapped[int] = mapped_column(ForeignKey("job.id"))  # the first bad one
    before_kernel: Mapped[str]  # SHA-256 of what ran, as are the bundles
    after_kernel: Mapped[str]
    before_bundle: Mapped[str]
    after_bundle: Mapped[str]
    before_environment: Mapped[str]  # hash
    after_environment: Mapped[str]
    found_at: Mapped[float] = mapped_column(Moment)
    ratio: Mapped[float | None]  # new over old; None of wrong results
    low: Mapped[float | None]
    high: Mapped[float | None]
    p: Mapped[float | None]
    state: Mapped[str]  # suspected | confirming | confirmed | dismissed | ambiguous
    cause: Mapped[str] = mapped_column(default="")  # kernel | environment | host | unknown

    __table_args__ = (
        UniqueConstraint("series_id", "after_job", "direction"),
        Index(None, "state"),
    )


class ChangePointEvent(Model):
    """One step of a change point's life."""

    __tablename__ = "change_point_event"

    id: Mapped[int] = mapped_column(primary_key=True)
    change_point_id: Mapped[int] = mapped_column(ForeignKey("change_point.id"))
    at: Mapped[float] = mapped_column(Moment)
    state: Mapped[str]
    note: Mapped[str]

    __table_args__ = (Index(None, "change_point_id"),)


class Confirmation(Model):
    """A change measured again: both bundles in turns, a run of paired jobs."""

    __tablename__ = "confirmation"

    id: Mapped[int] = mapped_column(primary_key=True)
    change_point_id: Mapped[int] = mapped_column(ForeignKey("change_point.id"))
    run_id: Mapped[int] = mapped_column(ForeignKey("run.id"), unique=True)
    created_at: Mapped[float] = mapped_column(Moment)
    finished_at: Mapped[float | None] = mapped_column(Moment)
    pairs: Mapped[int]  # asked for so far
    ratio: Mapped[float | None]  # of the pairs: new over old
    low: Mapped[float | None]
    high: Mapped[float | None]
    p: Mapped[float | None]
    verdict: Mapped[str] = mapped_column(default="")  # "" while it runs

    __table_args__ = (Index(None, "change_point_id"), Index(None, "finished_at"))


class Regression(Model):
    """Changes of one cause, as people deal with them."""

    __tablename__ = "regression"

    id: Mapped[int] = mapped_column(primary_key=True)
    group_key: Mapped[str]  # what its members have in common
    direction: Mapped[str]  # slower | faster | wrong
    cause: Mapped[str]  # kernel | environment | host | unknown
    title: Mapped[str]
    state: Mapped[str]  # open | acknowledged | fixed | verified | closed
    opened_at: Mapped[float] = mapped_column(Moment)
    changed_at: Mapped[float] = mapped_column(Moment)
    owner: Mapped[str] = mapped_column(default="")

    __table_args__ = (Index(None, "state", "opened_at"), Index(None, "group_key"))


class RegressionMember(Model):
    """A change point belongs to one regression at most."""

    __tablename__ = "regression_member"

    change_point_id: Mapped[int] = mapped_column(ForeignKey("change_point.id"), primary_key=True)
    regression_id: Mapped[int] = mapped_column(ForeignKey("regression.id"))

    __table_args__ = (Index(None, "regression_id"),)


class RegressionEvent(Model):
    """One step of a regression's life, and who took it."""

    __tablename__ = "regression_event"

    id: Mapped[int] = mapped_column(primary_key=True)
    regression_id: Mapped[int] = mapped_column(ForeignKey("regression.id"))
    at: Mapped[float] = mapped_column(Moment)
    state: Mapped[str]
    user_name: Mapped[str]  # "" is vkbench itself
    note: Mapped[str]

    __table_args__ = (Index(None, "regression_id"), Index(None, "at"))  # at: what to alert of


class Bisection(Model):
    """A search for the first bad one of ordered bundles, on one case of one device or several."""

    __tablename__ = "bisection"

    id: Mapped[int] = mapped_column(primary_key=True)
    created_at: Mapped[float] = mapped_column(Moment)
    user_name: Mapped[str]
    regression_id: Mapped[int | None] = mapped_column(ForeignKey("regression.id"))
    devices: Mapped[Json]  # {"keys": [...]}: identical ones share the steps
    case_name: Mapped[str]
    variant: Mapped[str]
    metric: Mapped[str]
    measure_seconds: Mapped[float]  # of each arm of a pair
    # {"bundles": [{"sha", "label", "note"}, ...]}: the good one first, the bad one last
    bundles: Mapped[Json]
    state: Mapped[str]  # running | found | failed
    low: Mapped[int]  # position of the last known good one
    high: Mapped[int]  # position of the first known bad one
    finished_at: Mapped[float | None] = mapped_column(Moment)
    note: Mapped[str] = mapped_column(default="")

    __table_args__ = (Index(None, "state"),)


class BisectionStep(Model):
    """One bundle held against the good one."""

    __tablename__ = "bisection_step"

    bisection_id: Mapped[int] = mapped_column(ForeignKey("bisection.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)  # of the bundle
    run_id: Mapped[int] = mapped_column(ForeignKey("run.id"))
    created_at: Mapped[float] = mapped_column(Moment)
    finished_at: Mapped[float | None] = mapped_column(Moment)
    pairs: Mapped[int]
    ratio: Mapped[float | None]
    low: Mapped[float | None]
    high: Mapped[float | None]
    p: Mapped[float | None]
    # good | bad | wrong | ambiguous; "" while it runs
    verdict: Mapped[str] = mapped_column(default="")
    note: Mapped[str] = mapped_column(default="")  # what was wrong, why there is no ratio


class Schedule(Model):
    """Work that comes again by a cron expression, in UTC."""

    __tablename__ = "schedule"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    cron: Mapped[str]
    selection: Mapped[Json]  # vkbench_scheduler.selection.Selection
    is_enabled: Mapped[bool] = mapped_column(default=True)
    created_at: Mapped[float] = mapped_column(Moment)
    user_name: Mapped[str]


class ScheduleSlot(Model):
    """One time that a schedule came due: its key lets two schedulers not double it."""

    __tablename__ = "schedule_slot"

    schedule_id: Mapped[int] = mapped_column(ForeignKey("schedule.id"), primary_key=True)
    slot: Mapped[float] = mapped_column(Moment, primary_key=True)
    run_id: Mapped[int | None] = mapped_column(ForeignKey("run.id"))
    note: Mapped[str] = mapped_column(default="")  # why no run came of it


class AlertDelivery(Model):
    """One state of a regression told, or to be told, through one channel."""

    __tablename__ = "alert_delivery"

    regression_id: Mapped[int] = mapped_column(ForeignKey("regression.id"), primary_key=True)
    state: Mapped[str] = mapped_column(primary_key=True)
    channel: Mapped[str] = mapped_column(primary_key=True)
    created_at: Mapped[float] = mapped_column(Moment)
    tries: Mapped[int] = mapped_column(default=0)
    next_try_at: Mapped[float] = mapped_column(Moment)
    delivered_at: Mapped[float | None] = mapped_column(Moment)
    error: Mapped[str] = mapped_column(default="")

    __table_args__ = (Index(None, "delivered_at", "next_try_at"),)
