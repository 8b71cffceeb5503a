"""`vkbench jobs`: runs with their counts, or the jobs of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from vkbench import names
from vkbench.job import JobState
from vkbench_cli.options import Devices, Store
from vkbench_cli.show.layout import Rank
from vkbench_cli.show.printing import (
    Cell,
    Column,
    Limit,
    Output,
    Table,
    ValueKind,
    show,
    show_newest,
)
from vkbench_cli.store import reading

if TYPE_CHECKING:
    from vkbench_db.ask.queries import JobRow, RunRow

NOTHING_YET = "no run yet: `vkbench run` makes one here, `vkbench submit` one of the fleet"
RUNS = (
    Column(key="id", heading="run", kind=ValueKind.COUNT, rank=Rank.KEY),
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
    Column(key="id", heading="job", kind=ValueKind.COUNT, rank=Rank.KEY),
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


def jobs(
    *,
    run: Annotated[
        str,
        Argument(
            metavar="RUN",
            help="A run: its number, label, UUID (or the beginning of it), or 'last'.",
        ),
    ] = "",
    state: Annotated[
        list[str],
        Option(
            metavar="STATE",
            help="Only jobs in this state, such as queued or wrong; may be repeated.",
        ),
    ] = [],  # noqa: B006
    device: Devices = [],  # noqa: B006
    limit: Limit = None,
    store: Store,
    output: Output,
) -> None:
    """List runs, or the jobs of one run.

    Without RUN, --state and --device it lists runs, the newest first. Unfinished jobs of an
    imported run are `elsewhere`: they belong to the database that it came from and never run here.

    \b
    vkbench jobs
    vkbench jobs last --state failed
    """
    from vkbench_db.ask import queries
    from vkbench_db.ask.blank import is_blank

    states = [names.pick(asked, list(JobState), "state") for asked in state]
    most = output.most(limit)
    look = most and most + 1
    with reading(store.settings()) as tx:
        if not (run or states or device):
            rows = [_run(row) for row in queries.runs(tx, limit=look)]
            show_newest(Table(columns=RUNS, rows=rows, nothing=NOTHING_YET), output, most)
            return
        if not run and is_blank(tx):
            show(Table(columns=JOBS, rows=(), nothing=NOTHING_YET), output)
            return
        number = queries.find_run(tx, run).id if run else None
        found = queries.jobs(tx, run=number, states=states, devices=device, limit=look)
    show_newest(Table(columns=JOBS, rows=[_job(row) for row in found]), output, most)


def _run(row: RunRow) -> dict[str, Cell]:
    counts = row.progress.counts
    return {
        "id": row.id,
        "uuid": row.uuid,
        "created_at": row.created_at,
        "user": row.user,
        "label": row.label,
        "state": "imported" if row.imported else row.progress.state,
        "total": row.progress.total,
        **{state: counts.get(state) for state in JobState},
        "priority": row.priority,
        "selection": dict(row.selection),
        "imported": row.imported,
    }


def _job(row: JobRow) -> dict[str, Cell]:
    return {
        "run": row.run,
        "id": row.id,
        "host": row.host,
        "device_name": row.device_name,
        "device": row.device,
        "case": row.case_name,
        "mode": row.mode,
        "variant": row.variant,
        "state": row.state,
        "tries": row.tries or None,
        "remark": f"{row.cause}: {row.reason}" if row.cause else row.reason,
        "cause": row.cause,
        "reason": row.reason,
        "dispatched_at": row.dispatched_at,
        "finished_at": row.finished_at,
    }
