"""`vkbench status`: whether the services run, and what waits for which device, and why."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from vkbench.errors import EXIT_OK, ServiceUnreachable
from vkbench_cli.options.records import Store
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import say, tell
from vkbench_cli.store import is_unmade, open_database
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

if TYPE_CHECKING:
    from vkbench.settings import Settings
    from vkbench_cli.show.services import Fleet
    from vkbench_db.ask.devices.queues import Queue

SERVICES = (
    Column(key="service", heading="service", rank=Rank.KEY),
    Column(key="state", heading="state", rank=Rank.KEY),
    Column(key="detail", heading="found", prose=True),
)
DEVICES = (
    Column(key="host", heading="host", lifted=True),
    Column(key="device", heading="key", rank=Rank.MINOR),
    Column(key="device_name", heading="device", rank=Rank.KEY),
    Column(key="state", heading="worker", rank=Rank.KEY),
    Column(key="seen_seconds", heading="seen before", kind=ValueKind.AGE, rank=Rank.MINOR),
    Column(key="queued", heading="queued", kind=ValueKind.COUNT, rank=Rank.KEY),
    Column(key="in_flight", heading="in flight", kind=ValueKind.COUNT),
    Column(key="oldest_seconds", heading="oldest job", kind=ValueKind.AGE),
    Column(key="why", heading="waits because", prose=True),
)
NOTHING_YET = (
    "no device is known to this database yet: `vkbench worker` on a GPU host announces its own"
)


def status(*, store: Store, output: Output) -> int:
    """Show whether the services run, and what waits for which device.

    Redis, the database, the scheduler and the workers, and when they were last seen. For each
    device: how many jobs are queued and in flight, the age of the oldest, and why they wait.
    A scheduler and Redis count as missing only if work
    waits for them, or if a scheduler has stopped without a word; `vkbench healthy scheduler`
    tells on its own machine whether one runs at all.

    \b
    vkbench status || echo "something has to be started"

    Exit codes: 0 nothing that is needed is missing, 8 a service is missing or unreachable.
    """
    from vkbench_cli.show.services import why

    settings, now = store.settings(), time.time()
    fleet = _read_fleet(settings, now)
    rows = [_row(queue, now, why(queue, fleet)) for queue in fleet.queues]
    if not (output.json or output.csv):
        show(Table(columns=SERVICES, rows=[asdict(service) for service in fleet.services]), output)
        say("")
    nothing = fleet.trouble or NOTHING_YET
    show(Table(columns=DEVICES, rows=rows, summary=_summary(fleet), nothing=nothing), output)
    tell(fleet.verdict)
    return EXIT_OK if fleet.is_well else ServiceUnreachable.exit_code


def _read_fleet(settings: Settings, now: float) -> Fleet:
    """The services and queues, also where the database cannot be reached."""
    from vkbench_cli.show.services import Fleet, read_unfit
    from vkbench_db.ask.devices.queues import queues
    from vkbench_db.blank import blank_database
    from vkbench_db.upkeep.attendance import attendance
    from vkbench_db.work.refused import count_refused

    is_new = is_unmade(settings)
    try:
        store = blank_database() if is_new else open_database(settings)
        with store as database, database.reading() as tx:
            return Fleet(
                settings=settings,
                now=now,
                queues=queues(tx),
                scheduler_seen=attendance(tx).scheduler_seen,
                refused=count_refused(tx),
                is_unmade=is_new,
                unfit=read_unfit(settings),
            )
    except ServiceUnreachable as error:
        return Fleet(settings=settings, now=now, trouble=str(error))


def _row(queue: Queue, now: float, why: str) -> dict[str, Cell]:
    served = "online" if queue.is_served(now) else "offline"
    return {
        "host": queue.host,
        "device": queue.key,
        "device_name": queue.name,
        "state": "paused" if queue.paused else served,
        "seen_seconds": None if queue.last_seen is None else max(0.0, now - queue.last_seen),
        "queued": queue.queued,
        "in_flight": queue.in_flight,
        "oldest_seconds": None if queue.oldest_at is None else max(0.0, now - queue.oldest_at),
        "why": why,
    }


def _summary(fleet: Fleet) -> dict[str, Cell]:
    return {
        "is_well": fleet.is_well,
        "queued": sum(queue.queued for queue in fleet.queues),
        "in_flight": sum(queue.in_flight for queue in fleet.queues),
        "services": [asdict(service) for service in fleet.services],
    }
