"""The samples of a job as a table."""

from __future__ import annotations

from vkbench_tables.table import Column, ValueKind

SAMPLES = (
    Column(key="job", heading="job", kind=ValueKind.ID),
    Column(key="metric", heading="metric"),
    Column(key="side", heading="side"),
    Column(key="seconds", heading="median", kind=ValueKind.SECONDS),
    Column(key="low", heading="low end of its interval", kind=ValueKind.SECONDS),
    Column(key="high", heading="high end of its interval", kind=ValueKind.SECONDS),
    Column(key="count", heading="samples", kind=ValueKind.COUNT),
    Column(key="launches", heading="launches in each sample", kind=ValueKind.COUNT),
    Column(key="samples", heading="seconds of one launch, in the order of measuring"),
)
