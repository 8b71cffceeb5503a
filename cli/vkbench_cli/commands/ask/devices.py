"""`vkbench devices`: the devices of the fleet, or of this machine."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vkbench_cli.options.records import Store
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import tell
from vkbench_cli.store import reading
from vkbench_tables.devices import COLUMNS, device_row, facts_row
from vkbench_tables.table import Cell, Column, Table

if TYPE_CHECKING:
    from vkbench.settings import Settings

UNFIT = Column(key="unfit", heading="gets no jobs because", prose=True)
HERE = "found here"  # state of a device that was asked for now, from no database
FOUND_HERE = "no device is recorded yet, so these are the devices of this machine"
NOTHING_YET = (
    "no device is known to this database yet: `vkbench worker` on a GPU host announces its own, "
    "--local shows this machine's"
)


def devices(
    *,
    local: Annotated[
        bool, Option("--local", help="List the devices of this machine; do not read the database.")
    ] = False,
    store: Store,
    output: Output,
) -> None:
    """List the devices of the database, or of this machine.

    A device is online if its worker reported within the last minute, and unfit if the scheduler
    cannot use that worker. The canary is a kernel that
    is timed again and again: it is steady, or off if it is more than 3 sigmas from its own history.
    A device that is known from imported results alone is `elsewhere`, as are the unfinished jobs of
    imported runs: they belong to another database. If no database exists yet and none is named,
    this lists the devices of this machine.
    """
    settings = store.settings()
    rows = _here() if local else _read_devices(settings)
    if not (rows or settings.database):
        rows = _here()
        tell(FOUND_HERE)
    show(Table(columns=(*COLUMNS, UNFIT), rows=rows, nothing=NOTHING_YET), output)


def _read_devices(settings: Settings) -> list[dict[str, Cell]]:
    from vkbench_cli.show.services import read_unfit
    from vkbench_db.ask import queries
    from vkbench_db.ask.devices.lately import steadiness
    from vkbench_db.upkeep.attendance import attendance

    with reading(settings) as tx:
        steady, now = steadiness(tx), time.time()
        rows = [device_row(row, steady.get(row.key), now) for row in queries.devices(tx)]
        has_scheduler = attendance(tx).scheduler_seen is not None  # who else would say so?
    unfit = read_unfit(settings).devices if has_scheduler else {}
    return _mark_unfit(rows, unfit)


def _mark_unfit(rows: Sequence[dict[str, Cell]], unfit: Mapping[str, str]) -> list[dict[str, Cell]]:
    """Mark unfit devices with the reason, and add those of which nothing else is known."""
    known = {str(row["key"]): row for row in rows}
    marked: list[dict[str, Cell]] = [*rows]
    for key, why in unfit.items():
        if key in known:
            known[key].update(state="unfit", unfit=why)
        else:
            marked.append({"key": key, "state": "unfit", "unfit": why})
    return marked


def _here() -> list[dict[str, Cell]]:
    from vkbench_local.machine import all_devices

    return [facts_row(facts) | {"state": HERE} for facts in all_devices()]
