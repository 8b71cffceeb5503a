"""`vkbench cancel`, `pause` and `resume`: which jobs the fleet must not run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from vkbench.selector import HELP
from vkbench.words.units import count_of
from vkbench_cli import completion
from vkbench_cli.options.records import RUN_HELP, Store
from vkbench_cli.show.telling import say
from vkbench_cli.store import open_database, refuse_imported

if TYPE_CHECKING:
    from vkbench_db.ask.queries import DeviceRow
    from vkbench_db.database import Transaction

Run = Annotated[
    str,
    Argument(metavar="RUN", help=RUN_HELP),
]
Device = Annotated[
    str,
    Argument(metavar="DEVICE", help=HELP, autocompletion=completion.devices),
]


def cancel(*, run: Run, store: Store) -> None:
    """Cancel the unfinished jobs of a run.

    A job that is running is stopped too.
    """
    from vkbench_db.ask import queries
    from vkbench_db.work.arrivals import cancel_run

    with open_database(store.settings()) as database:
        with database.reading() as tx:
            run_row = queries.find_run(tx, run)
        refuse_imported(run_row, "cancel it")
        count = cancel_run(database, run_row.id, time.time())
    say(f"run {run_row.id}: {count_of(count, 'job')} cancelled")


def pause(
    *,
    device: Device,
    reason: Annotated[
        str, Option(metavar="TEXT", help="Why: `devices`, `status` and the pages show it.")
    ] = "",
    now: Annotated[
        bool,
        Option(
            "--now", help="Have its worker hand back what was sent before, the running job too."
        ),
    ] = False,
    store: Store,
) -> None:
    """Stop sending jobs to a device, or to all devices of a host.

    Its jobs stay queued. Those that were sent before still run, a few seconds of work; with --now
    they go back to the queue, and no try is counted. `vkbench resume` ends the pause.

    \b
    vkbench pause host:lab1 --reason 'new power supply' --now
    """
    from vkbench.process.user import user_name
    from vkbench_db.work.store import Pause
    from vkbench_db.work.store import pause as hold

    order = Pause(reason=reason, by=user_name(), at=time.time(), recall=now)
    with open_database(store.settings()) as database, database.transaction() as tx:
        device_rows = _find_devices(tx, device)
        for row in device_rows:
            hold(tx, row.key, order)
    for row in device_rows:
        say(f"{row.name} ({row.key}) is paused")


def resume(
    *,
    device: Device,
    as_is: Annotated[
        bool, Option("--as-is", help="Without a trial: the device stays as slow as it has become.")
    ] = False,
    store: Store,
) -> None:
    """Send jobs to a paused device again.

    If the scheduler had paused it, the device's canary goes first, and the device is on trial until
    a job passes: one failure, or a canary that is off, pauses it again.
    """
    from vkbench_db.work.store import resume as release
    from vkbench_scheduler.watch.health import submit_trial

    now = time.time()
    with open_database(store.settings()) as database, database.transaction() as tx:
        meant = _find_devices(tx, device)
        trials = {
            row.key: submit_trial(tx, row.facts, now)
            for row in meant
            if release(tx, row.key, now, as_is=as_is)
        }
    for row in meant:
        trial = f"; its canary goes first, as run {trials[row.key]}" if row.key in trials else ""
        say(f"{row.name} ({row.key}) is served again{trial}")


def _find_devices(tx: Transaction, selector: str) -> list[DeviceRow]:
    from vkbench_db.ask import queries
    from vkbench_db.ask.devices.names import device_keys

    keys = device_keys(tx, [selector])
    return [row for row in queries.devices(tx) if row.key in keys]
