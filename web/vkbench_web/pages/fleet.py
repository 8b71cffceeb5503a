"""/fleet: every device with its health, its queue and when its worker was last heard of."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from vkbench.job import JobState
from vkbench_db.ask import queries
from vkbench_db.ask.devices.lately import Lately, lately, steadiness
from vkbench_db.ask.devices.queues import queues, reasons_to_wait
from vkbench_db.upkeep.attendance import Attendance, attendance
from vkbench_tables.absence import absence
from vkbench_tables.devices import COLUMNS, device_row, health
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind
from vkbench_web.listing import Row, list_table
from vkbench_web.shell import age, lab_of, page

router = APIRouter()
NOTHING_YET = "no device is known yet: `vkbench run` makes results of this machine's devices"

_ADDED = (
    Column(key="health", heading="health", rank=Rank.KEY),
    Column(key="waiting_since", heading="waiting for", kind=ValueKind.TIME),
    Column(key="awaits", heading="waits because", prose=True),
    Column(key="failed", heading="failed lately", kind=ValueKind.COUNT, hidden=True),
    Column(key="newest_at", heading="newest result", kind=ValueKind.TIME, hidden=True),
)
_FIRST = (
    *("name", "state", "health", "canary", "queued", "in_flight", "waiting_since"),
    *("awaits", "elsewhere"),
    *("paused_reason", "paused_by", "paused_at"),
    *("last_seen", "host", "driver", "driver_version", "drivers", "driver_copies"),
    *("no_copy", "type"),
)
_ON_A_PHONE = _FIRST[: _FIRST.index("waiting_since") + 1]


def _columns() -> list[Column]:
    """The columns, with a device's trouble first; facts of hardware only in downloads."""
    known = {column.key: column for column in (*COLUMNS, *_ADDED)}
    shown = [
        replace(known[key], rank=Rank.USUAL if key in _ON_A_PHONE else Rank.MINOR) for key in _FIRST
    ]
    rest = [replace(column, hidden=True) for key, column in known.items() if key not in _FIRST]
    return [*shown, *rest]


SHOWN = _columns()


@router.get("/fleet", include_in_schema=False)
def fleet(request: Request) -> Response:
    """The page of all devices."""
    lab = lab_of(request)
    now = lab.now()
    with lab.reading() as tx:
        steady, did, device_rows = steadiness(tx), lately(tx), queries.devices(tx)
        lacked = reasons_to_wait(tx)
        oldest = {queue.key: queue.oldest_at for queue in queues(tx)}
        busy = [row.key for row in device_rows if row.queued or row.in_flight]
        present = attendance(tx, devices=busy)
    rows = [
        device_row(row, steady.get(row.key), now)
        | {
            "health": health(steady.get(row.key), did.get(row.key, Lately())),
            "waiting_since": oldest.get(row.key),
            "awaits": lacked.get(row.key, ""),
            "failed": did.get(row.key, Lately()).failed,
            "newest_at": did.get(row.key, Lately()).newest_at,
        }
        for row in device_rows
    ]
    table = Table(columns=SHOWN, rows=rows, nothing=NOTHING_YET)
    is_made_up = lab.is_demonstration()
    devices = list_table(
        request,
        table,
        name="devices",
        links={"key": _heat_map, "name": _heat_map, "state": _results},
        texts={
            "last_seen": lambda row: _ago(row["last_seen"], now),
            "waiting_since": lambda row: _for(row["waiting_since"], now),
            "paused_at": lambda row: _ago(row["paused_at"], now),
            "canary": _canary,
            "state": lambda row: describe_state(row, now, is_made_up=is_made_up),
        },
    )
    return devices.download() or page(
        request,
        "fleet.html",
        devices=devices,
        queued=sum(row.queued for row in device_rows),
        in_flight=sum(row.in_flight for row in device_rows),
        scheduler=_scheduler(present, now),
        waits=absence(present, now),
    )


def describe_state(row: Row, now: float, *, is_made_up: bool) -> str:
    """The state of a device; of one that no worker serves, how old its newest results are.

    An import, or `vkbench run`, brings results of devices that nothing keeps open: these are not
    offline. Nor are the devices of a demonstration.
    """
    is_away = row["state"] in ("offline", JobState.ELSEWHERE)
    newest_at = row["newest_at"]
    if is_away and (is_made_up or not row["worker"]) and isinstance(newest_at, int | float):
        return f"last results {_ago(newest_at, now)}"
    return str(row["state"])


def _scheduler(present: Attendance, now: float) -> str:
    if present.scheduler_seen is None:
        return "no scheduler has run here"
    if present.has_scheduler(now):
        return "a scheduler is running"
    return f"no scheduler was seen for {age(now - present.scheduler_seen)}"


def _canary(row: Row) -> str:
    """A canary's state and deviation: steady, +0.4 sigma."""
    sigmas = row["canary_sigmas"]
    if not isinstance(sigmas, int | float):
        return str(row["canary"] or "")
    return f"{row['canary']}, {sigmas:+.1f} sigma"


def _ago(moment: Cell, now: float) -> str:
    if not isinstance(moment, int | float):
        return ""
    passed = age(now - moment)
    return passed if passed == "now" else f"{passed} ago"


def _for(moment: Cell, now: float) -> str:
    return age(now - moment) if isinstance(moment, int | float) else ""


def _results(row: Row) -> str:
    """What ran on the device, the newest first."""
    return f"/results?device={row['key']}"


def _heat_map(row: Row) -> str:
    return f"/heatmap?device={row['key']}"
