"""`vkbench cancel`, `pause` and `resume`: which jobs the fleet must not run."""

from __future__ import annotations

import time
from typing import Annotated

from typer import Argument

from vkbench.selector import HELP
from vkbench.settings import Settings
from vkbench_cli import completion
from vkbench_cli.options import RUN_HELP, Store
from vkbench_cli.store import opened, refuse_imported

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
    from vkbench_db.work import store as states

    with opened(store.settings()) as database, database.transaction() as tx:
        found = queries.find_run(tx, run)
        refuse_imported(found, "cancel it")
        count = states.cancel(tx, found.id, time.time())
    print(f"run {found.id}: {count} jobs cancelled")


def pause(*, device: Device, store: Store) -> None:
    """Stop sending jobs to a device.

    Jobs that were sent before still run; `vkbench resume` ends the pause.
    """
    _set_paused(device, True, store.settings())


def resume(*, device: Device, store: Store) -> None:
    """Send jobs to a paused device again."""
    _set_paused(device, False, store.settings())


def _set_paused(device: str, paused: bool, settings: Settings) -> None:
    from vkbench_db.ask import queries
    from vkbench_db.ask.device_names import device_keys
    from vkbench_db.work import store as states

    with opened(settings) as database, database.transaction() as tx:
        meant = device_keys(tx, [device])
        for key in meant:
            states.pause(tx, key, paused)
        known = {row.key: row.name for row in queries.devices(tx)}
    for key in meant:
        print(f"{known[key]} ({key}) is {'paused' if paused else 'served again'}")
