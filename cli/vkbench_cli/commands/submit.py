"""`vkbench submit`: work for the devices of the fleet."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vkbench.errors import EXIT_INTERRUPTED
from vkbench_cli.options import Effort, Output, Selecting, Store

if TYPE_CHECKING:
    from vkbench_db.database import Database
    from vkbench_scheduler.submit import Submitted


def submit(
    *,
    selecting: Selecting,
    effort: Effort,
    wait: Annotated[bool, Option("--wait", help="Wait for the end and print the results.")] = False,
    timeout: Annotated[
        float | None,
        Option(metavar="S", min=0.0, help="Wait at most so many seconds; the jobs go on."),
    ] = None,
    key: Annotated[
        str,
        Option(
            metavar="TEXT", help="Idempotency key: a second submission with it is the first one."
        ),
    ] = "",
    store: Store,
    output: Output,
) -> int:
    """Send work to the devices of the fleet.

    Devices are those that workers have registered; without --device it is all of them. Prints the
    number of the run, and says if no scheduler or no worker was seen lately. With --wait, Ctrl-C
    ends the waiting and not the run.

    \b
    vkbench submit --suite quick --device 'NVIDIA*' --wait

    Exit codes with --wait: 0 all right, 3 a wrong result, 4 a job that failed, 5 not done in time,
    7 nothing ran.
    """
    from vkbench_cli.absence import warn
    from vkbench_cli.report import conclude
    from vkbench_cli.store import opened
    from vkbench_cli.waiting import wait_for

    with opened(store.settings()) as database:
        made = _submitted(database, selecting, effort, key)
        if not wait:
            print(made.run.id)
            print(f"run {made.run.id}: {made.jobs} jobs submitted", file=sys.stderr)
        warn(database, f"run {made.run.id}", run=made.run.id)
        if not wait:
            return 0
        try:
            wait_for(database, made.run.id, timeout)
        except KeyboardInterrupt:
            print(f"run {made.run.id} goes on: `vkbench jobs {made.run.id}`", file=sys.stderr)
            return EXIT_INTERRUPTED
        return conclude(database, made.run.id, output)


def _submitted(database: Database, selecting: Selecting, effort: Effort, key: str) -> Submitted:
    from vkbench_cli.store import bundle_named, user_name
    from vkbench_db import queries
    from vkbench_db.device_names import served_keys
    from vkbench_scheduler.submit import submit as store_run

    with database.reading() as tx:
        known = [row.facts for row in queries.devices(tx)]
        meant = served_keys(tx, selecting.device)
        bundle = bundle_named(tx, selecting.bundle)
    return store_run(
        database,
        replace(selecting.selection(effort), devices=tuple(meant)),
        known,
        bundle=bundle,
        user=user_name(),
        label=effort.label,
        idempotency_key=key or None,
    )
