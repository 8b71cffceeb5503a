"""What keeps watch: schedulers, calibrations, baselines, bisections, schedules, alerts."""

from __future__ import annotations

from sqlalchemy import ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from vkbench_db.models.model import Json, Model
from vkbench_db.moment import Moment


class Scheduler(Model):
    """A scheduler that runs, or that ended without saying so."""

    __tablename__ = "scheduler"

    name: Mapped[str] = mapped_column(primary_key=True)  # host:process
    seen_at: Mapped[float] = mapped_column(Moment)


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
