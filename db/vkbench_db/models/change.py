"""What changed, and how sure that is: series, change points, regressions."""

from __future__ import annotations

from sqlalchemy import JSON, ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from vkbench_db.models.model import Json, Model
from vkbench_db.moment import Moment


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
