"""Series, the results of one, and its changes as tables; the names are those of `v_series`."""

from __future__ import annotations

from vkbench_tables.table import Column, Rank, ValueKind

# What a series measures, in tables of few devices.
MEASURED = (
    Column(key="host", heading="host", lifted=True),
    Column(key="device_name", heading="device", lifted=True),
    Column(key="device", heading="device key", hidden=True),
    Column(key="case_name", heading="case", rank=Rank.KEY),
    Column(key="variant", heading="variant"),
    Column(key="metric", heading="metric"),
    Column(key="side", heading="side", hidden=True),
)
SERIES = (
    Column(key="series", heading="series", kind=ValueKind.ID, rank=Rank.KEY),
    Column(key="host", heading="host", hidden=True),
    Column(key="device_name", heading="device"),
    Column(key="device", heading="device key", hidden=True),
    Column(key="case_name", heading="case", rank=Rank.KEY),
    Column(key="kernel", heading="kernel", hidden=True),
    Column(key="format", heading="format", hidden=True),
    Column(key="variant", heading="variant", rank=Rank.MINOR),
    Column(key="metric", heading="metric"),
    Column(key="side", heading="side", hidden=True),
    Column(key="environment_class", heading="clocks", hidden=True),
    Column(key="track", heading="track", hidden=True),
    Column(key="sigma", heading="sigma", kind=ValueKind.PERCENT, rank=Rank.MINOR),
    Column(key="noise_kind", heading="noise", rank=Rank.MINOR),
    Column(
        key="autocorrelation",
        heading="resembles the last",
        kind=ValueKind.NUMBER,
        hidden=True,
    ),
    Column(key="smallest_effect", heading="cannot see below", kind=ValueKind.PERCENT),
    Column(key="results", heading="results", kind=ValueKind.COUNT, rank=Rank.MINOR),
    Column(key="newest_at", heading="newest", kind=ValueKind.TIME, rank=Rank.MINOR),
)
POINTS = (
    Column(key="measured_at", heading="measured", kind=ValueKind.TIME, rank=Rank.KEY),
    Column(key="job", heading="job", kind=ValueKind.ID, rank=Rank.KEY),
    Column(key="run", heading="run", kind=ValueKind.ID, rank=Rank.MINOR),
    Column(key="seconds", heading="median", kind=ValueKind.SECONDS, rank=Rank.KEY),
    Column(key="low_seconds", heading="from", kind=ValueKind.SECONDS, rank=Rank.MINOR),
    Column(key="high_seconds", heading="to", kind=ValueKind.SECONDS, rank=Rank.MINOR),
    Column(key="samples", heading="samples", kind=ValueKind.COUNT, rank=Rank.MINOR),
    Column(key="build", heading="build"),
    Column(key="change", heading="change"),
    Column(key="moved", heading="what moved", prose=True),
    Column(key="flag", heading="left out", prose=True),
    Column(key="driver", heading="driver", rank=Rank.MINOR),
    Column(key="driver_version", heading="driver version", hidden=True),
    Column(key="bundle", heading="bundle", hidden=True),
    Column(key="kernel_sha", heading="code", hidden=True),
    Column(key="environment", heading="environment", hidden=True),
)
CHANGES = (
    Column(key="change", heading="change", kind=ValueKind.ID, rank=Rank.KEY),
    Column(key="state", heading="state", rank=Rank.KEY),
    Column(key="direction", heading="direction"),
    Column(key="cause", heading="cause"),
    Column(key="ratio", heading="new/old", kind=ValueKind.RATIO, rank=Rank.KEY),
    Column(key="low", heading="from", kind=ValueKind.RATIO, rank=Rank.MINOR),
    Column(key="high", heading="to", kind=ValueKind.RATIO, rank=Rank.MINOR),
    Column(key="p", heading="p", kind=ValueKind.NUMBER, rank=Rank.MINOR),
    Column(key="method", heading="found by", rank=Rank.MINOR),
    Column(key="before_job", heading="last good job", kind=ValueKind.ID),
    Column(key="after_job", heading="first bad job", kind=ValueKind.ID),
    Column(key="regression", heading="regression", kind=ValueKind.ID),
    Column(key="found_at", heading="found", kind=ValueKind.TIME, rank=Rank.MINOR),
)
