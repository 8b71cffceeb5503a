"""Series, change points and regressions, and the public views of series and regressions."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Column,
    Float,
    ForeignKey,
    Index,
    Named,
    Table,
    Text,
    UniqueConstraint,
)

from vkbench.result import Side
from vkbench_db.schema.metadata import TABLES, VIEWS, Columns, Json, Moment


class FreshColumns(Columns):
    """A job that has ended and was not looked at yet: timings to place, or a failure to judge.

    The row is written together with the job's last result.
    """

    job_id: Named[int] = Column(ForeignKey("job.id"), primary_key=True)


fresh = Table("fresh", TABLES, FreshColumns)


class SeriesColumns(Columns):
    """Timings that are compared with each other: one metric of one case, code path and device."""

    id: Named[int] = Column(primary_key=True)
    device_id: Named[int] = Column(ForeignKey("device.id"))
    case_id: Named[int] = Column(ForeignKey("kernel_case.id"))
    variant: Named[str] = Column(Text)  # code path that ran
    # hot | cold; "verdict" where results became wrong or jobs failed
    metric: Named[str] = Column(Text)
    # ours, or theirs: of another program
    side: Named[str] = Column(Text, server_default=Side.OURS)
    environment_class: Named[str] = Column(Text)  # clock policy; bounds checked
    track: Named[str] = Column(Text)
    # the last result that the screen saw, and vkbench_detection.statistics.screen's state after it
    screened_at: Named[float | None] = Column(Moment)
    screened_job: Named[int | None]
    screen: Named[Json | None] = Column(JSON(none_as_null=True))
    # its noise, as vkbench_detection.statistics.noise describes it
    sigma: Named[float | None] = Column(Float)  # relative
    noise_kind: Named[str] = Column(Text, default="")
    autocorrelation: Named[float | None] = Column(Float)
    smallest_effect: Named[float | None] = Column(
        Float
    )  # smaller relative changes are not detected
    profiled_at: Named[float | None] = Column(Moment)  # measured_at of the newest result then
    # when to scan its whole history again; None if no result came since the last scan
    scan_due_at: Named[float | None] = Column(Moment)


series = Table(
    "series",
    TABLES,
    SeriesColumns,
    UniqueConstraint(
        *("case_id", "device_id", "variant", "metric", "side", "environment_class", "track"),
        name="uq_series_identity",
    ),
    Index(None, "device_id"),
    Index(None, "scan_due_at"),
)


class ChangePointColumns(Columns):
    """A change, or a suspected one, between two neighbouring results of a series."""

    id: Named[int] = Column(primary_key=True)
    series_id: Named[int] = Column(ForeignKey("series.id"))
    method: Named[str] = Column(Text)  # screen | history | baseline | kin | verdict | decay
    direction: Named[str] = Column(Text)  # slower | faster | wrong | failed
    before_job: Named[int] = Column(ForeignKey("job.id"))  # the last good job
    after_job: Named[int] = Column(ForeignKey("job.id"))  # the first bad job
    before_kernel: Named[str] = Column(Text)  # SHA-256 of what ran, as are the bundles
    after_kernel: Named[str] = Column(Text)
    before_bundle: Named[str] = Column(Text)
    after_bundle: Named[str] = Column(Text)
    before_environment: Named[str] = Column(Text)  # hash
    after_environment: Named[str] = Column(Text)
    found_at: Named[float] = Column(Moment)
    ratio: Named[float | None] = Column(Float)  # new time over old; None of verdicts
    low: Named[float | None] = Column(Float)
    high: Named[float | None] = Column(Float)
    p: Named[float | None] = Column(Float)
    state: Named[str] = Column(Text)  # a ChangeState of detection
    cause: Named[str] = Column(Text, default="")  # a Cause of detection


change_point = Table(
    "change_point",
    TABLES,
    ChangePointColumns,
    UniqueConstraint("series_id", "after_job", "direction"),
    Index(None, "state"),
)


class ChangePointEventColumns(Columns):
    """One change of a change point's state."""

    id: Named[int] = Column(primary_key=True)
    change_point_id: Named[int] = Column(ForeignKey("change_point.id"))
    at: Named[float] = Column(Moment)
    state: Named[str] = Column(Text)
    note: Named[str] = Column(Text)


change_point_event = Table(
    "change_point_event", TABLES, ChangePointEventColumns, Index(None, "change_point_id")
)


class ConfirmationColumns(Columns):
    """A run of paired jobs that times both bundles of a change in turns."""

    id: Named[int] = Column(primary_key=True)
    change_point_id: Named[int] = Column(ForeignKey("change_point.id"))
    run_id: Named[int] = Column(ForeignKey("run.id"), unique=True)
    created_at: Named[float] = Column(Moment)
    finished_at: Named[float | None] = Column(Moment)
    pairs: Named[int]  # requested so far
    ratio: Named[float | None] = Column(Float)  # of the pairs: new time over old
    low: Named[float | None] = Column(Float)
    high: Named[float | None] = Column(Float)
    p: Named[float | None] = Column(Float)
    verdict: Named[str] = Column(Text, default="")  # "" while it runs


confirmation = Table(
    "confirmation",
    TABLES,
    ConfirmationColumns,
    Index(None, "change_point_id"),
    Index(None, "finished_at"),
)


class RegressionColumns(Columns):
    """A group of changes with one cause, which people acknowledge and fix together."""

    id: Named[int] = Column(primary_key=True)
    group_key: Named[str] = Column(Text)  # what its members have in common
    direction: Named[str] = Column(Text)  # slower | faster | wrong | failed
    cause: Named[str] = Column(Text)  # a Cause of detection
    title: Named[str] = Column(Text)
    state: Named[str] = Column(Text)  # a RegressionStage of detection
    opened_at: Named[float] = Column(Moment)
    changed_at: Named[float] = Column(Moment)
    owner: Named[str] = Column(Text, default="")


regression = Table(
    "regression",
    TABLES,
    RegressionColumns,
    Index(None, "state", "opened_at"),
    Index(None, "group_key"),
)


class RegressionMemberColumns(Columns):
    """A change point of a regression; it belongs to at most one regression."""

    change_point_id: Named[int] = Column(ForeignKey("change_point.id"), primary_key=True)
    regression_id: Named[int] = Column(ForeignKey("regression.id"))


regression_member = Table(
    "regression_member", TABLES, RegressionMemberColumns, Index(None, "regression_id")
)


class RegressionEventColumns(Columns):
    """One change of a regression's state, and who made it."""

    id: Named[int] = Column(primary_key=True)
    regression_id: Named[int] = Column(ForeignKey("regression.id"))
    at: Named[float] = Column(Moment)
    state: Named[str] = Column(Text)
    user_name: Named[str] = Column(Text)  # "" is vkbench itself
    note: Named[str] = Column(Text)


regression_event = Table(
    "regression_event",
    TABLES,
    RegressionEventColumns,
    Index(None, "regression_id"),
    Index(None, "at"),  # alerts read recent events
)


class AllSeriesColumns(Columns):
    """Every series of timings."""

    series: Named[int]
    host: Named[str] = Column(Text)
    device: Named[str] = Column(Text)
    device_name: Named[str] = Column(Text)
    case_name: Named[str] = Column(Text)
    kernel: Named[str] = Column(Text)
    format: Named[str] = Column(Text)
    variant: Named[str] = Column(Text)
    metric: Named[str] = Column(Text)
    environment_class: Named[str] = Column(Text)
    track: Named[str] = Column(Text)
    results: Named[int]
    newest_at: Named[float | None] = Column(Moment)
    sigma: Named[float | None] = Column(Float)
    noise_kind: Named[str] = Column(Text)
    autocorrelation: Named[float | None] = Column(Float)
    smallest_effect: Named[float | None] = Column(Float)
    side: Named[str] = Column(Text)


v_series = Table("v_series", VIEWS, AllSeriesColumns)


class RegressionChangeColumns(Columns):
    """Every change that belongs to a regression."""

    regression: Named[int]
    state: Named[str] = Column(Text)
    direction: Named[str] = Column(Text)
    cause: Named[str] = Column(Text)
    title: Named[str] = Column(Text)
    owner: Named[str] = Column(Text)
    opened_at: Named[float] = Column(Moment)
    changed_at: Named[float] = Column(Moment)
    change: Named[int]
    series: Named[int]
    host: Named[str] = Column(Text)
    device: Named[str] = Column(Text)
    device_name: Named[str] = Column(Text)
    case_name: Named[str] = Column(Text)
    kernel: Named[str] = Column(Text)
    format: Named[str] = Column(Text)
    variant: Named[str] = Column(Text)
    metric: Named[str] = Column(Text)
    ratio: Named[float | None] = Column(Float)
    low: Named[float | None] = Column(Float)
    high: Named[float | None] = Column(Float)
    p: Named[float | None] = Column(Float)
    method: Named[str] = Column(Text)
    before_job: Named[int]
    after_job: Named[int]
    before_kernel: Named[str] = Column(Text)
    after_kernel: Named[str] = Column(Text)
    before_bundle: Named[str] = Column(Text)
    after_bundle: Named[str] = Column(Text)
    before_driver: Named[str | None] = Column(Text)
    after_driver: Named[str | None] = Column(Text)
    before_driver_version: Named[str | None] = Column(Text)
    after_driver_version: Named[str | None] = Column(Text)
    found_at: Named[float] = Column(Moment)
    program: Named[str | None] = Column(Text)  # whose build came with it
    before_build: Named[str | None] = Column(Text)  # what people call the builds
    after_build: Named[str | None] = Column(Text)


v_regressions = Table("v_regressions", VIEWS, RegressionChangeColumns)
