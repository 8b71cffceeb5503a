"""Schedulers, calibrations, baselines, bisections, schedules, alerts, peers, tokens, refusals."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    LargeBinary,
    Named,
    Table,
    Text,
    UniqueConstraint,
)

from vkbench_db.schema.metadata import TABLES, Columns, Json, Moment


class SchedulerColumns(Columns):
    """A scheduler that runs, or that was killed before it could delete its row."""

    name: Named[str] = Column(Text, primary_key=True)  # host:process
    seen_at: Named[float] = Column(Moment)


scheduler = Table("scheduler", TABLES, SchedulerColumns)


class CalibrationColumns(Columns):
    """The most that a device reaches in one environment: roofs to compare results with."""

    id: Named[int] = Column(primary_key=True)
    device_id: Named[int] = Column(ForeignKey("device.id"))
    environment: Named[str] = Column(Text)  # hash
    measured_at: Named[float] = Column(Moment)
    run_id: Named[int] = Column(ForeignKey("run.id"))
    read_bytes: Named[float | None] = Column(Float)  # per second, as all rates here
    copy_bytes: Named[float | None] = Column(Float)  # per second, read and written
    fma_f32: Named[float | None] = Column(Float)  # operations per second; an fma is two
    fma_f16: Named[float | None] = Column(Float)
    dot_i8: Named[float | None] = Column(Float)
    matrices: Named[Json] = Column(JSON())  # operations per second by kind of cooperative matrix
    launch_seconds: Named[float | None] = Column(Float)
    tick_seconds: Named[float | None] = Column(Float)
    noise: Named[float | None] = Column(Float)  # relative sigma of the canary over several timings


calibration = Table(
    "calibration",
    TABLES,
    CalibrationColumns,
    UniqueConstraint("run_id", "device_id"),
    Index(None, "device_id", "environment", "measured_at"),
)


class CanaryColumns(Columns):
    """A timing of a pinned case before a batch: it shows whether the device has changed."""

    id: Named[int] = Column(primary_key=True)
    device_id: Named[int] = Column(ForeignKey("device.id"))
    environment: Named[str] = Column(Text)  # hash
    measured_at: Named[float] = Column(Moment)
    seconds: Named[float] = Column(Float)
    deviation: Named[float | None] = Column(
        Float
    )  # from its own history, in sigmas; None without a history
    is_off: Named[bool]


canary = Table(
    "canary",
    TABLES,
    CanaryColumns,
    UniqueConstraint("device_id", "measured_at"),
    Index(None, "device_id", "environment", "measured_at"),
)


class TunedColumns(Columns):
    """The configuration that was the fastest for a case, in a sweep on a device."""

    id: Named[int] = Column(primary_key=True)
    run_id: Named[int] = Column(ForeignKey("run.id"))
    device_id: Named[int] = Column(ForeignKey("device.id"))
    case_id: Named[int] = Column(ForeignKey("kernel_case.id"))
    driver: Named[str] = Column(Text)  # a choice holds for one version of one driver
    driver_version: Named[str] = Column(Text)
    configuration: Named[str] = Column(Text)  # code path and settings
    seconds: Named[float] = Column(Float)
    estimated: Named[str] = Column(Text)  # the configuration without tuning
    estimated_seconds: Named[float] = Column(Float)
    measured_at: Named[float] = Column(Moment)


tuned = Table(
    "tuned",
    TABLES,
    TunedColumns,
    UniqueConstraint("run_id", "device_id", "case_id"),
    Index(None, "device_id", "case_id", "measured_at"),
)


class BaselineColumns(Columns):
    """A name for the run, bundle, build or day that results are compared with."""

    id: Named[int] = Column(primary_key=True)
    name: Named[str] = Column(Text, unique=True)
    kind: Named[str] = Column(Text)  # run | bundle | build | date
    value: Named[str] = Column(Text)  # UUID, SHA-256, or a moment in ISO 8601
    created_at: Named[float] = Column(Moment)
    user_name: Named[str] = Column(Text)


baseline = Table("baseline", TABLES, BaselineColumns)


class BisectionColumns(Columns):
    """A search for the first bad bundle in an ordered list, by one case on one or more devices."""

    id: Named[int] = Column(primary_key=True)
    created_at: Named[float] = Column(Moment)
    user_name: Named[str] = Column(Text)
    regression_id: Named[int | None] = Column(ForeignKey("regression.id"))
    devices: Named[Json] = Column(JSON())  # {"keys": [...]}: identical devices share the steps
    case_name: Named[str] = Column(Text)
    variant: Named[str] = Column(Text)
    metric: Named[str] = Column(Text)
    measure_seconds: Named[float] = Column(Float)  # of each arm of a pair
    # {"bundles": [{"sha", "label", "note"}, ...]}: the good bundle first, the bad one last
    bundles: Named[Json] = Column(JSON())
    state: Named[str] = Column(Text)  # running | found | failed
    low: Named[int]  # position of the last bundle known to be good
    high: Named[int]  # position of the first bundle known to be bad
    finished_at: Named[float | None] = Column(Moment)
    note: Named[str] = Column(Text, default="")


bisection = Table("bisection", TABLES, BisectionColumns, Index(None, "state"))


class BisectionStepColumns(Columns):
    """A comparison of one bundle with the good one, by pairs."""

    bisection_id: Named[int] = Column(ForeignKey("bisection.id"), primary_key=True)
    position: Named[int] = Column(primary_key=True)  # of the bundle
    run_id: Named[int] = Column(ForeignKey("run.id"))
    created_at: Named[float] = Column(Moment)
    finished_at: Named[float | None] = Column(Moment)
    pairs: Named[int]
    ratio: Named[float | None] = Column(Float)
    low: Named[float | None] = Column(Float)
    high: Named[float | None] = Column(Float)
    p: Named[float | None] = Column(Float)
    # good | bad | wrong | ambiguous; "" while it runs
    verdict: Named[str] = Column(Text, default="")
    note: Named[str] = Column(
        Text, default=""
    )  # which outputs were wrong, or why there is no ratio


bisection_step = Table("bisection_step", TABLES, BisectionStepColumns)


class ScheduleColumns(Columns):
    """A selection to submit whenever a cron expression, in UTC, says so."""

    id: Named[int] = Column(primary_key=True)
    name: Named[str] = Column(Text, unique=True)
    cron: Named[str] = Column(Text)
    selection: Named[Json] = Column(JSON())  # vkbench_scheduler.planning.selection.Selection
    is_enabled: Named[bool] = Column(default=True)
    created_at: Named[float] = Column(Moment)
    user_name: Named[str] = Column(Text)


schedule = Table("schedule", TABLES, ScheduleColumns)


class ScheduleSlotColumns(Columns):
    """One time at which a schedule was due; its key keeps two schedulers from using it twice."""

    schedule_id: Named[int] = Column(ForeignKey("schedule.id"), primary_key=True)
    slot: Named[float] = Column(Moment, primary_key=True)
    run_id: Named[int | None] = Column(ForeignKey("run.id"))
    note: Named[str] = Column(Text, default="")  # why there is no run


schedule_slot = Table("schedule_slot", TABLES, ScheduleSlotColumns)


class RefusedColumns(Columns):
    """A message of a worker that could not be stored as a result."""

    id: Named[int] = Column(primary_key=True)
    received_at: Named[float] = Column(Moment)
    # no foreign key: a worker says it
    job_id: Named[int | None] = Column(BigInteger)
    reason: Named[str] = Column(Text)
    body: Named[bytes] = Column(LargeBinary)  # its first 64 KB


refused = Table("refused", TABLES, RefusedColumns)


class AlertDeliveryColumns(Columns):
    """One piece of news of a regression through one channel, sent or to be sent."""

    regression_id: Named[int] = Column(ForeignKey("regression.id"), primary_key=True)
    # a state that it came to, or again or grown; numbered from the second time on: "fixed 2"
    state: Named[str] = Column(Text, primary_key=True)
    channel: Named[str] = Column(Text, primary_key=True)
    created_at: Named[float] = Column(Moment)
    tries: Named[int] = Column(default=0)
    next_try_at: Named[float] = Column(Moment)
    delivered_at: Named[float | None] = Column(Moment)
    error: Named[str] = Column(Text, default="")


alert_delivery = Table(
    "alert_delivery", TABLES, AlertDeliveryColumns, Index(None, "delivered_at", "next_try_at")
)


class ForgeIssueColumns(Columns):
    """An issue that a regression has on a forge."""

    regression_id: Named[int] = Column(ForeignKey("regression.id"), primary_key=True)
    channel: Named[str] = Column(Text, primary_key=True)  # as deliveries of alerts name it
    number: Named[int]
    link: Named[str] = Column(Text)


forge_issue = Table("forge_issue", TABLES, ForgeIssueColumns)


class PeerStandingColumns(Columns):
    """Whether a comparison with a peer found a ratio that fell; each is judged once."""

    job_id: Named[int] = Column(ForeignKey("job.id"), primary_key=True)
    has_fallen: Named[bool]
    judged_at: Named[float] = Column(Moment)
    told_at: Named[float | None] = Column(Moment)  # when the alert channels heard of the fall


peer_standing = Table("peer_standing", TABLES, PeerStandingColumns)


class TokenColumns(Columns):
    """A secret that permits some ways of writing; the database knows its hash alone.

    No row is ever deleted, and names are unique, so that the name of a token beside a run or an
    event means one token for good.
    """

    id: Named[int] = Column(primary_key=True)
    name: Named[str] = Column(Text, unique=True)
    prefix: Named[str] = Column(Text, unique=True)  # the secret's beginning, which people may see
    sha256: Named[str] = Column(Text, unique=True)  # of the whole secret
    scopes: Named[list[str]] = Column(JSON())  # of vkbench_db.upkeep.tokens.Scope
    created_at: Named[float] = Column(Moment)
    expires_at: Named[float | None] = Column(Moment)
    revoked_at: Named[float | None] = Column(Moment)
    last_used_at: Named[float | None] = Column(Moment)  # to the minute


token = Table("token", TABLES, TokenColumns)
