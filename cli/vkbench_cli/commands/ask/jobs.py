"""`vkbench jobs`: runs with their counts, or the jobs of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from vkbench.job import JobState
from vkbench.words import names
from vkbench_cli.options.records import RUN_HELP, Devices, Store
from vkbench_cli.show.printing import Limit, Output, show, show_first, show_newest
from vkbench_cli.store import reading
from vkbench_tables.runs import JOBS, RUNS, job_row, run_row
from vkbench_tables.table import Table

if TYPE_CHECKING:
    pass

NOTHING_YET = "no run yet: `vkbench run` makes one here, `vkbench submit` one of the fleet"


def jobs(
    *,
    run: Annotated[
        str,
        Argument(
            metavar="RUN",
            help=RUN_HELP,
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
    from vkbench_db.blank import is_blank

    states = [names.pick(word, list(JobState), "state") for word in state]
    most = output.most(limit)
    look = most and most + 1
    with reading(store.settings()) as tx:
        if not (run or states or device):
            rows = [run_row(row) for row in queries.runs(tx, limit=look)]
            show_newest(Table(columns=RUNS, rows=rows, nothing=NOTHING_YET), output, most)
            return
        if not run and is_blank(tx):
            show(Table(columns=JOBS, rows=(), nothing=NOTHING_YET), output)
            return
        number = queries.find_run(tx, run).id if run else None
        job_rows = queries.jobs(tx, run=number, states=states, devices=device, limit=look)
    table = Table(columns=JOBS, rows=[job_row(row) for row in job_rows])
    show_first(table, output, most, "newest" if number is None else "first")
