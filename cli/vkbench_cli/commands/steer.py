"""`vkbench cancel`, `pause` and `resume`: what a fleet is to leave undone."""

from __future__ import annotations

import time
from typing import Annotated

from typer import Argument

from vkbench.selector import HELP
from vkbench.settings import Settings
from vkbench_cli import completion
from vkbench_cli.options import Store

Run = Annotated[
    str,
    Argument(metavar="RUN", help="A run: its number, label, UUID or the beginning of it, or last."),
]
Device = Annotated[
    str,
    Argument(metavar="DEVICE", help=HELP, autocompletion=completion.devices),
]


def cancel(*, run: Run, store: Store) -> None:
    """Cancel what a run has not finished.

    The job that is on a device now is ended too.
    """
    from vkbench_cli.store import opened, refuse_imported
    from vkbench_db import queries
    from vkbench_db import store as states

    with opened(store.settings()) as database, database.transaction() as tx:
        found = queries.find_run(tx, run)
        refuse_imported(found, "cancel it")
        count = states.cancel(tx, found.id, time.time())
    print(f"run {found.id}: {count} jobs cancelled")


def pause(*, device: Device, store: Store) -> None:
    """Send no more jobs to a device.

    What was sent before goes on; `vkbench resume` ends the pause.
    """
    _set_paused(device, True, store.settings())


def resume(*, device: Device, store: Store) -> None:
    """Send jobs to a paused device again."""
    _set_paused(device, False, store.settings())


def _set_paused(device: str, paused: bool, settings: Settings) -> None:
    from vkbench_cli.store import opened
    from vkbench_db import queries
    from vkbench_db import store as states
    from vkbench_db.device_names import device_keys

    with opened(settings) as database, database.transaction() as tx:
        meant = device_keys(tx, [device])
        for key in meant:
            states.pause(tx, key, paused)
        known = {row.key: row.name for row in queries.devices(tx)}
    for key in meant:
        print(f"{known[key]} ({key}) is {'paused' if paused else 'served again'}")
