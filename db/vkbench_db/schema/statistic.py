"""What drivers made of kernels, beside times: registers, bytes, joules; and the view of it."""

from __future__ import annotations

from sqlalchemy import Column, Float, ForeignKeyConstraint, Named, Table, Text

from vkbench_db.schema.metadata import TABLES, VIEWS, Columns, Moment


class StatisticColumns(Columns):
    """One vkbench.result.Statistic of the attempt that settled the job."""

    job_id: Named[int] = Column(primary_key=True)
    name: Named[str] = Column(Text, primary_key=True)
    token: Named[int]
    value: Named[float | None] = Column(Float)
    unit: Named[str] = Column(Text)
    spread: Named[float | None] = Column(Float)
    note: Named[str] = Column(Text)


statistic = Table(
    "statistic",
    TABLES,
    StatisticColumns,
    ForeignKeyConstraint(["job_id", "token"], ["attempt.job_id", "attempt.token"]),
)


class EveryStatisticColumns(Columns):
    """Every statistic, with the job that it is of and what that ran on."""

    host: Named[str] = Column(Text)
    device: Named[str] = Column(Text)
    device_name: Named[str] = Column(Text)
    driver: Named[str | None] = Column(Text)
    driver_version: Named[str | None] = Column(Text)
    environment: Named[str] = Column(Text)
    case_name: Named[str] = Column(Text)
    kernel: Named[str] = Column(Text)
    format: Named[str] = Column(Text)
    variant: Named[str] = Column(Text)
    variant_run: Named[str] = Column(Text)
    kernel_sha: Named[str] = Column(Text)
    bundle: Named[str] = Column(Text)
    run: Named[int]
    run_label: Named[str] = Column(Text)
    track: Named[str] = Column(Text)
    job: Named[int]
    name: Named[str] = Column(Text)
    value: Named[float | None] = Column(Float)
    unit: Named[str] = Column(Text)
    spread: Named[float | None] = Column(Float)
    note: Named[str] = Column(Text)
    finished_at: Named[float] = Column(Moment)


v_statistics = Table("v_statistics", VIEWS, EveryStatisticColumns)
