"""What queries read: the public views, and the columns of tables that they need beside them.

Light forms, so that a command that only reads is spared the import of SQLAlchemy's ORM (0.1 s);
a test holds them to the schema. The migrations make the views.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    Integer,
    MetaData,
    Table,
    Text,
)
from sqlalchemy.types import TypeEngine

from vkbench_db.moment import Moment

_METADATA = MetaData()


def _columns(kind: type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    return [Column(name, kind) for name in names]


RESULTS = Table(
    "v_results",
    _METADATA,
    *_columns(Text, "host", "device", "device_name", "driver", "driver_version", "environment"),
    *_columns(Text, "case_name", "kernel", "format", "types", "shape", "params"),
    *_columns(Text, "mode", "variant", "variant_run", "kernel_sha", "bundle"),
    *_columns(Integer, "run", "job", "tries"),
    *_columns(Text, "run_uuid", "run_label", "track", "state", "cause", "reason"),
    *_columns(Text, "path", "metric", "stop"),
    *_columns(Float, "nmse", "max_abs", "seconds", "mad", "low", "high", "best"),
    *_columns(Integer, "count"),
    *_columns(Float, "gb_per_second", "gflop_per_second", "roof_fraction"),
    *_columns(JSON, "warnings"),
    Column("flag", Text),
    Column("series", Integer),
    Column("finished_at", Moment),
    Column("path_fraction", Float),
)

ALL_SERIES = Table(
    "v_series",
    _METADATA,
    Column("series", Integer),
    *_columns(Text, "host", "device", "device_name", "case_name", "kernel", "format"),
    *_columns(Text, "variant", "metric", "environment_class", "track"),
    Column("results", Integer),
    Column("newest_at", Moment),
    Column("sigma", Float),
    Column("noise_kind", Text),
    *_columns(Float, "autocorrelation", "smallest_effect"),
)
REGRESSIONS = Table(
    "v_regressions",
    _METADATA,
    Column("regression", Integer),
    *_columns(Text, "state", "direction", "cause", "title", "owner"),
    *(Column(name, Moment) for name in ("opened_at", "changed_at")),
    *_columns(Integer, "change", "series"),
    *_columns(Text, "host", "device", "device_name", "case_name", "kernel", "format"),
    *_columns(Text, "variant", "metric"),
    *_columns(Float, "ratio", "low", "high", "p"),
    Column("method", Text),
    *_columns(Integer, "before_job", "after_job"),
    *_columns(Text, "before_kernel", "after_kernel", "before_bundle", "after_bundle"),
    *_columns(Text, "before_driver", "after_driver"),
    *_columns(Text, "before_driver_version", "after_driver_version"),
    Column("found_at", Moment),
)

HOST = Table("host", _METADATA, *_columns(Integer, "id"), *_columns(Text, "name"))
DEVICE = Table(
    "device",
    _METADATA,
    *_columns(Integer, "id", "host_id"),
    *_columns(Text, "key", "name", "worker", "bundle", "environment"),
    *_columns(JSON, "facts"),
    *_columns(Boolean, "paused"),
    Column("last_seen", Moment),
)
SCHEDULER = Table("scheduler", _METADATA, *_columns(Text, "name"), Column("seen_at", Moment))
ENVIRONMENT = Table(
    "environment",
    _METADATA,
    *_columns(Text, "hash", "driver", "driver_version"),
    *_columns(JSON, "facts"),
)
CASE = Table(
    "kernel_case", _METADATA, *_columns(Integer, "id"), *_columns(Text, "name", "kernel", "format")
)
RUN = Table(
    "run",
    _METADATA,
    *_columns(Integer, "id", "priority"),
    *_columns(Text, "uuid", "user_name", "label", "mode"),
    *_columns(JSON, "tags", "selection"),
    *(Column(name, Moment) for name in ("created_at", "cancelled_at", "imported_at")),
)
JOB = Table(
    "job",
    _METADATA,
    *_columns(Integer, "id", "run_id", "position", "device_id", "case_id", "token", "tries"),
    *_columns(Integer, "settled_token"),
    *_columns(Text, "mode", "variant", "state", "cause", "reason"),
    *_columns(Float, "estimate_seconds"),
    *(Column(name, Moment) for name in ("dispatched_at", "finished_at")),
)
ATTEMPT = Table(
    "attempt",
    _METADATA,
    *_columns(Integer, "job_id", "token"),
    *_columns(Text, "variant", "kernel_sha", "bundle", "environment"),
)
MEASUREMENT = Table(
    "measurement",
    _METADATA,
    *_columns(Integer, "job_id", "count", "series_id"),
    *_columns(Text, "metric", "flag"),
    *_columns(Float, "seconds", "low", "high", "roof_fraction"),
    Column("measured_at", Moment),
)
SERIES = Table(
    "series",
    _METADATA,
    *_columns(Integer, "id", "device_id", "case_id"),
    *_columns(Text, "variant", "metric", "environment_class", "track", "noise_kind"),
    *_columns(Float, "sigma", "autocorrelation", "smallest_effect"),
    Column("profiled_at", Moment),
)
BASELINE = Table(
    "baseline",
    _METADATA,
    *_columns(Integer, "id"),
    *_columns(Text, "name", "kind", "value", "user_name"),
    Column("created_at", Moment),
)
BUNDLE = Table("bundle", _METADATA, *_columns(Text, "sha", "name"))
CHANGE_POINT = Table(
    "change_point",
    _METADATA,
    *_columns(Integer, "id", "series_id", "before_job", "after_job"),
    *_columns(Text, "state", "direction", "method", "cause"),
    *_columns(Float, "ratio", "p"),
    Column("found_at", Moment),
)
REGRESSION_EVENT = Table(
    "regression_event",
    _METADATA,
    *_columns(Integer, "id", "regression_id"),
    Column("at", Moment),
    *_columns(Text, "state", "user_name", "note"),
)
CHANGE_POINT_EVENT = Table(
    "change_point_event",
    _METADATA,
    *_columns(Integer, "id", "change_point_id"),
    Column("at", Moment),
    *_columns(Text, "state", "note"),
)
CANARY = Table(
    "canary",
    _METADATA,
    *_columns(Integer, "id", "device_id"),
    *_columns(Float, "seconds"),
    Column("measured_at", Moment),
)
