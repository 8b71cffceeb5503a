"""`vkbench devices`: the devices of the fleet, or of this machine."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vkbench.job import JobState
from vkbench_cli.options import Store
from vkbench_cli.show.layout import Rank
from vkbench_cli.show.printing import Cell, Column, Output, Table, ValueKind, show
from vkbench_cli.store import reading

if TYPE_CHECKING:
    from vkbench.device import DeviceFacts
    from vkbench.settings import Settings
    from vkbench_db.ask.canary_status import Steadiness
    from vkbench_db.ask.queries import DeviceRow

HERE = "found here"  # state of a device that was asked for now, from no database
FOUND_HERE = "no device is recorded yet, so these are the devices of this machine"
NOTHING_YET = (
    "no device is known to this database yet: `vkbench worker` on a GPU host announces its own, "
    "--local shows this machine's"
)

COLUMNS = (
    Column(key="key", heading="key", rank=Rank.KEY),
    Column(key="host", heading="host"),
    Column(key="index", heading="index", kind=ValueKind.COUNT, rank=Rank.MINOR),
    Column(key="name", heading="device", rank=Rank.KEY),
    Column(key="type", heading="type", rank=Rank.MINOR),
    Column(key="driver", heading="driver"),
    Column(key="driver_version", heading="version", rank=Rank.MINOR),
    Column(key="state", heading="state", rank=Rank.KEY),
    Column(key="canary", heading="canary"),
    Column(key="canary_sigmas", heading="canary's sigmas", kind=ValueKind.NUMBER, hidden=True),
    Column(key="canary_at", heading="canary at", kind=ValueKind.TIME, hidden=True),
    Column(key="queued", heading="queued", kind=ValueKind.COUNT),
    Column(key="in_flight", heading="in flight", kind=ValueKind.COUNT),
    Column(key="elsewhere", heading="elsewhere", kind=ValueKind.COUNT),
    Column(key="memory_bytes", heading="memory", kind=ValueKind.BYTES, rank=Rank.MINOR),
    Column(key="subgroup_size", heading="subgroup", kind=ValueKind.COUNT, rank=Rank.MINOR),
    Column(key="last_seen", heading="last seen", kind=ValueKind.TIME),
    Column(key="worker", heading="worker", hidden=True),
    Column(key="uuid", heading="UUID", hidden=True),
    Column(key="features", heading="features", hidden=True),
    Column(key="limits", heading="limits", hidden=True),
    Column(key="bundle", heading="packaged bundle", hidden=True),
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

    A device is online if its worker reported within the last minute. The canary is a kernel that
    is timed again and again: it is steady, or off if it is more than 3 sigmas from its own history.
    A device that is known from imported results alone is `elsewhere`, as are the unfinished jobs of
    imported runs: they belong to another database. If no database exists yet and none is named,
    this lists the devices of this machine.
    """
    ours = store.settings()
    rows = _here() if local else _known(ours)
    if not (rows or ours.database):
        rows = _here()
        print(FOUND_HERE, file=sys.stderr)
    show(Table(columns=COLUMNS, rows=rows, nothing=NOTHING_YET), output)


def _known(ours: Settings) -> list[dict[str, Cell]]:
    from vkbench_db.ask import queries
    from vkbench_db.ask.canary_status import steadiness

    with reading(ours) as tx:
        steady = steadiness(tx)
        return [_row(row, steady.get(row.key)) for row in queries.devices(tx)]


def _here() -> list[dict[str, Cell]]:
    from vkbench_local.machine import all_devices

    return [_facts(facts) | {"state": HERE} for facts in all_devices()]


def _facts(facts: DeviceFacts) -> dict[str, Cell]:
    return {
        "key": facts.key,
        "host": facts.host,
        "index": facts.index,
        "name": facts.name,
        "type": facts.type,
        "memory_bytes": facts.memory_bytes,
        "subgroup_size": facts.subgroup_size,
        "uuid": facts.uuid,
        "features": facts.features,
        "limits": dict(facts.limits),
    }


def _row(row: DeviceRow, canary: Steadiness | None) -> dict[str, Cell]:
    return {
        **_facts(row.facts),
        "driver": row.driver,
        "driver_version": row.driver_version,
        "state": _state(row),
        "canary": canary.word if canary else "",
        "canary_sigmas": canary and canary.deviation,
        "canary_at": canary and canary.at,
        "queued": row.queued,
        "in_flight": row.in_flight,
        "elsewhere": row.elsewhere or None,
        "last_seen": row.last_seen,
        "worker": row.worker,
        "bundle": row.bundle,
    }


def _state(row: DeviceRow) -> str:
    from vkbench_db.upkeep.attendance import LATELY_SECONDS

    if row.paused:
        return "paused"
    if row.last_seen is None:  # no worker announced it here: an import brought it
        return JobState.ELSEWHERE
    return "online" if time.time() - row.last_seen < LATELY_SECONDS else "offline"
