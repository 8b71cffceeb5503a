"""Runs and their jobs as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkbench.job import JobState
from vkbench_tables.table import Cell, Column, Rank, ValueKind

if TYPE_CHECKING:
    from vkbench_db.ask.queries import JobRow, RunRow

RUNS = (
    Column(key="id", heading="run", kind=ValueKind.ID, rank=Rank.KEY),
    Column(key="uuid", heading="UUID", hidden=True),
    Column(key="created_at", heading="submitted", kind=ValueKind.TIME),
    Column(key="user", heading="by", rank=Rank.MINOR),
    Column(key="label", heading="label"),
    Column(key="state", heading="state", rank=Rank.KEY),
    Column(key="total", heading="jobs", kind=ValueKind.COUNT, rank=Rank.KEY),
    *(Column(key=state, heading=state, kind=ValueKind.COUNT) for state in JobState),
    Column(key="priority", heading="priority", hidden=True),
    Column(key="selection", heading="selection", hidden=True),
    Column(key="imported", heading="imported", hidden=True),
)
JOBS = (
    Column(key="run", heading="run", lifted=True),
    Column(key="id", heading="job", kind=ValueKind.ID, rank=Rank.KEY),
    Column(key="host", heading="host", lifted=True),
    Column(key="device_name", heading="device", lifted=True),
    Column(key="device", heading="device key", hidden=True),
    Column(key="case", heading="case", rank=Rank.KEY),
    Column(key="mode", heading="mode", rank=Rank.MINOR),
    Column(key="variant", heading="variant"),
    Column(key="state", heading="state", rank=Rank.KEY),
    Column(key="tries", heading="tries", kind=ValueKind.COUNT, rank=Rank.MINOR),
    Column(key="remark", heading="remark", prose=True),
    Column(key="cause", heading="cause", hidden=True),
    Column(key="reason", heading="reason", hidden=True),
    Column(key="dispatched_at", heading="sent", kind=ValueKind.TIME, hidden=True),
    Column(key="finished_at", heading="finished", kind=ValueKind.TIME, hidden=True),
)


def run_row(row: RunRow) -> dict[str, Cell]:
    """A run with the counts of its jobs."""
    counts = row.progress.counts
    return {
        **vars(row),
        "state": "imported" if row.imported else row.progress.state,
        "total": row.progress.total,
        **{state: counts.get(state) for state in JobState},
        "selection": dict(row.selection),
    }


def job_row(row: JobRow) -> dict[str, Cell]:
    """A job and its state."""
    return {
        **vars(row),
        "case": row.case_name,
        "tries": row.tries or None,
        "remark": f"{row.cause}: {row.reason}" if row.cause else row.reason,
    }
