"""`vkbench watch`: a run, or the whole fleet, live until it has ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from vkbench.errors import EXIT_INTERRUPTED, EXIT_OK
from vkbench.words.units import count_of
from vkbench_cli.options.records import RUN_HELP, AllRows, Store
from vkbench_cli.show.printing import Output
from vkbench_cli.show.telling import tell
from vkbench_cli.store import open_database, refuse_imported

if TYPE_CHECKING:
    from vkbench_db.database import Database

IDLE = "nothing waits or runs: `vkbench submit` gives the fleet work"


def watch(
    *,
    run: Annotated[
        str,
        Argument(
            metavar="RUN",
            help=RUN_HELP,
        ),
    ] = "",
    timeout: Annotated[
        float | None,
        Option(metavar="S", min=0.0, help="Stop watching after S seconds; the jobs continue."),
    ] = None,
    all_rows: AllRows = False,
    store: Store,
    output: Output,
) -> int:
    """Watch a run, or the whole fleet, until it ends.

    Shows how far each device is: jobs done, wrong and failed, the rate and the time left. Where
    stderr is no terminal, a line every half minute says the same. At the end of a run it prints
    the results, as `vkbench submit --wait` does. Without RUN it ends when no device has anything
    left to do. Ctrl-C ends the watching, never the work.

    \b
    vkbench watch
    vkbench watch last

    Exit codes with RUN: 0 all passed, 3 a wrong result, 4 a failed job, 5 --timeout passed,
    7 nothing ran, 130 interrupted.
    """
    with open_database(store.settings()) as database:
        try:
            if run:
                return _run(database, run, timeout, output, all_rows=all_rows)
            return _fleet(database, timeout)
        except KeyboardInterrupt:
            tell("no longer watched; the work continues")
            return EXIT_INTERRUPTED


def _run(
    database: Database, run_name: str, timeout: float | None, output: Output, *, all_rows: bool
) -> int:
    from vkbench_cli.show.report import conclude
    from vkbench_cli.show.waiting import wait_for, warn
    from vkbench_db.ask.queries import find_run

    with database.reading() as tx:
        run = find_run(tx, run_name)
    refuse_imported(run, "watch it")
    warn(database, f"run {run.id}", run=run.id)
    wait_for(database, run.id, timeout)
    return conclude(database, run.id, output, all_rows=all_rows)


def _fleet(database: Database, timeout: float | None) -> int:
    from vkbench_cli.show.pace import trouble
    from vkbench_cli.show.waiting import wait_for_fleet, warn
    from vkbench_db.ask.devices import tallies

    since = time.time()
    with database.reading() as tx:
        busy = [tally.device for tally in tallies.of_fleet(tx, since)]
    if not busy:
        tell(IDLE)
        return EXIT_OK
    warn(database, "the fleet", devices=busy)
    end = wait_for_fleet(database, since, timeout)
    tell(", ".join([f"fleet: {count_of(end.done, 'job')} ended", *trouble(end)]))
    return EXIT_OK
