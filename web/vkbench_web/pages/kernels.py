"""/kernels: the catalogue and the kernels of users, and how each kernel stands on each device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from vkbench.job import SEVERITY
from vkbench.words.units import list_counts
from vkbench_db.ask import queries
from vkbench_db.ask.latest_results import KernelState, kernel_states
from vkbench_db.ask.queries import DeviceRow
from vkbench_tables.kernels import COLUMNS, kernel_row
from vkbench_tables.table import Cell, Column, Table, ValueKind
from vkbench_web.listing import Row, list_table
from vkbench_web.shell import lab_of, page

router = APIRouter()
MOST_DEVICES = 8  # that have a column of their own
_SHOWN = ("name", "group", "description")  # the page of a kernel has the rest


@router.get("/kernels", include_in_schema=False)
def kernels(request: Request) -> Response:
    """The catalogue, and what users declared."""
    from vkbench_scheduler.own_kernels import own_kernels
    from vkbench_shaders.catalogue import KERNELS

    with lab_of(request).reading() as tx:
        devices = queries.devices(tx)
        states = tallies(kernel_states(tx))
        declared = [own.kernel for own in own_kernels(tx)]
    shown = [
        device for device in devices if any(device.key in counts for counts in states.values())
    ]
    rows = [
        _row(kernel_row(kernel), states.get(kernel.name, {}), shown[:MOST_DEVICES])
        for kernel in (*KERNELS, *declared)
    ]
    table = Table(columns=_columns(shown[:MOST_DEVICES]), rows=rows)
    links = {"name": _kernel, "group": _group}
    listing = list_table(request, table, name="kernels", links=links)
    return listing.download() or page(request, "kernels.html", kernels=listing)


def tallies(states: Iterable[KernelState]) -> dict[str, dict[str, dict[str, int]]]:
    """Counts by kernel, device and state."""
    counts: dict[str, dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
    for row in states:
        counts[row.kernel][row.device][row.state] = row.results
    return counts


def list_states(counts: Mapping[str, int]) -> str:
    """Counts of states, the gravest first: "wrong 1, passed 24"."""
    return list_counts({state: counts[state] for state in SEVERITY if counts.get(state)})


def _columns(devices: Sequence[DeviceRow]) -> list[Column]:
    names = [device.name for device in devices]
    own = {column.key: column for column in COLUMNS}
    hidden = [replace(column, hidden=True) for column in COLUMNS if column.key not in _SHOWN]
    return [
        *(own[key] for key in ("name", "group", "description")),
        Column(key="format_count", heading="formats", kind=ValueKind.COUNT),
        Column(key="case_count", heading="cases", kind=ValueKind.COUNT),
        *(
            Column(key=f"on_{device.key}", heading=_heading(device, names.count(device.name)))
            for device in devices
        ),
        *hidden,
    ]


def _heading(device: DeviceRow, namesakes: int) -> str:
    return device.name if namesakes == 1 else f"{device.name} {device.key[:4]}"


def _row(
    row: dict[str, Cell], states: Mapping[str, Mapping[str, int]], devices: Sequence[DeviceRow]
) -> dict[str, Cell]:
    formats = row["formats"]
    counts = {
        "format_count": len(formats) if isinstance(formats, tuple) else None,
        "case_count": row["cases"],
    }
    return {
        **row,
        **counts,
        **{f"on_{device.key}": list_states(states.get(device.key, {})) for device in devices},
    }


def _kernel(row: Row) -> str:
    return f"/kernels/{row['name']}"


def _group(row: Row) -> str:
    return f"/kernels?group={row['group']}"
