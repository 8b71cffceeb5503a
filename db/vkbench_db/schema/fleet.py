"""Hosts, devices and environments: where jobs run."""

from __future__ import annotations

from sqlalchemy import JSON, Column, ForeignKey, Named, Table, Text, false

from vkbench_db.schema.metadata import TABLES, Columns, Json, Moment


class HostColumns(Columns):
    """A machine with devices."""

    id: Named[int] = Column(primary_key=True)
    name: Named[str] = Column(Text, unique=True)


host = Table("host", TABLES, HostColumns)


class DeviceColumns(Columns):
    """A physical or software device of a host, as it last announced itself."""

    id: Named[int] = Column(primary_key=True)
    key: Named[str] = Column(Text, unique=True)  # 12 hex digits
    host_id: Named[int] = Column(ForeignKey("host.id"))
    name: Named[str] = Column(Text)
    facts: Named[Json] = Column(JSON())  # vkbench.device.DeviceFacts
    paused: Named[bool] = Column(default=False)  # the dispatcher sends no jobs to it
    paused_reason: Named[str] = Column(Text, default="", server_default="")
    paused_by: Named[str] = Column(Text, default="", server_default="")  # user, or scheduler
    paused_at: Named[float | None] = Column(Moment)
    # its worker hands back what it holds of a paused device
    recalled: Named[bool] = Column(default=False, server_default=false())
    resumed_at: Named[float | None] = Column(Moment)  # what was before tells nothing of its health
    # a scheduler had paused it, and nothing has passed since it was resumed
    on_trial: Named[bool] = Column(default=False, server_default=false())
    pause_told_at: Named[float | None] = Column(Moment)  # when the alert channels heard of it
    # the worker that serves it; "" if a run on this machine was the last to open it
    worker: Named[str] = Column(Text, default="")
    bundle: Named[str] = Column(Text, default="")  # SHA-256 of the packaged bundle there
    environment: Named[str] = Column(Text, default="")  # hash of its current environment
    last_seen: Named[float | None] = Column(Moment)
    # vkbench.device.HostDriver of each that its host has; None of workers that know no drivers
    drivers: Named[Json | None] = Column(JSON(none_as_null=True))
    # vkbench.device.OwnDrivers of its host; None of workers that copy none
    own_drivers: Named[Json | None] = Column(JSON(none_as_null=True))
    last_run: Named[int] = Column(default=0)  # run whose job was sent last: round robin


device = Table("device", TABLES, DeviceColumns)


class EnvironmentColumns(Columns):
    """The driver, kernel and other software that a measurement depends on."""

    hash: Named[str] = Column(Text, primary_key=True)
    driver: Named[str] = Column(Text)
    driver_version: Named[str] = Column(Text)
    facts: Named[Json] = Column(JSON())  # vkbench.device.Environment


environment = Table("environment", TABLES, EnvironmentColumns)
