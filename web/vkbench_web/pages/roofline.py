"""/roofline: the latest timings of a device under what its calibration reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from vkbench.words import names
from vkbench_db.ask import queries
from vkbench_db.ask.devices.names import device_keys
from vkbench_db.ask.latest_results import RooflinePoint, last_seen_device, roofline_points
from vkbench_db.database import Transaction
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind
from vkbench_web.listing import Row, list_table
from vkbench_web.matrix import name_family
from vkbench_web.scatter import Roof, Scatter, Spot, scatter
from vkbench_web.shell import lab_of, page

if TYPE_CHECKING:
    from vkbench_detection.series.calibrations import Reached

router = APIRouter()
METRICS = ("hot", "cold")
HEIGHTS = {"flops": "operations a second", "bytes": "bytes a second"}
COLUMNS = (
    Column(key="kernel", heading="kernel"),
    Column(key="case", heading="case", rank=Rank.KEY),
    Column(key="variant", heading="variant"),
    Column(key="seconds", heading="time", kind=ValueKind.SECONDS),
    Column(key="intensity", heading="FLOP/B", kind=ValueKind.NUMBER, rank=Rank.MINOR),
    Column(key="flops_per_second", heading="", kind=ValueKind.FLOP_RATE),
    Column(key="bytes_per_second", heading="", kind=ValueKind.BYTE_RATE),
    Column(key="roof_fraction", heading="of roof", kind=ValueKind.PERCENT, rank=Rank.KEY),
    Column(key="path_fraction", heading="of path", kind=ValueKind.PERCENT, rank=Rank.MINOR),
    Column(key="bytes_moved", heading="bytes", kind=ValueKind.COUNT, hidden=True),
    Column(key="flops", heading="operations", kind=ValueKind.COUNT, hidden=True),
    Column(key="series", heading="series", hidden=True),
    Column(key="job", heading="job", hidden=True),
)
_OWN = ("device", "metric", "y")
_COLOURS = 7  # of families
_REST = "keyrest"


@router.get("/roofline", include_in_schema=False)
def roofline(request: Request) -> Response:
    """The roofline of a device."""
    given = request.query_params
    metric = names.pick(given.get("metric") or "hot", METRICS, "metric")
    height = names.pick(given.get("y") or "flops", HEIGHTS, "axis")
    with lab_of(request).reading() as tx:
        keys = device_keys(tx, [given["device"]]) if given.get("device") else []
        key = keys[0] if keys else last_seen_device(tx)
        devices = queries.devices(tx)
        points = roofline_points(tx, device=key, metric=metric) if key else []
        reached = read_calibrations(tx, [key]) if key else {}
    table = Table(
        columns=COLUMNS, rows=[point_row(point) for point in points], nothing=_nothing(key)
    )
    listing = list_table(
        request,
        table,
        name="roofline",
        links={"case": _series, "kernel": _kernel, "roof_fraction": _job},
        own=_OWN,
    )
    return listing.download() or page(
        request,
        "roofline.html",
        points=listing,
        picture=picture(listing.table.rows, reached.get(key), height),
        device=next((row for row in devices if row.key == key), None),
        devices=devices,
        metric=metric,
        metrics=METRICS,
        height=height,
        heights=HEIGHTS,
        reached=reached.get(key),
        tones=tones_of(listing.table.rows),
    )


def read_calibrations(tx: Transaction, devices: Sequence[str]) -> Mapping[str, Reached]:
    """The newest calibration of each of these devices."""
    from vkbench_detection.series.calibrations import latest

    return {
        calibration.device: calibration
        for calibration in sorted(
            latest(tx, devices=devices), key=lambda calibration: calibration.measured_at
        )
    }


def picture(rows: Iterable[Row], reached: Reached | None, height: str) -> Scatter | None:
    """The picture of timings under their roofs: rate over intensity, or bandwidth over size."""
    rows = list(rows)
    tones = dict(tones_of(rows))
    if height == "bytes":
        spots = [_spot(row, row["bytes_moved"], row["bytes_per_second"], tones) for row in rows]
        return scatter(
            spots, _bandwidths(reached), x="bytes of a launch (B)", y="bytes a second (B/s)"
        )
    spots = [_spot(row, row["intensity"], row["flops_per_second"], tones) for row in rows]
    return scatter(
        spots,
        _rates(reached),
        x="operations for each byte (FLOP/B)",
        y="operations a second (FLOP/s)",
    )


def point_row(point: RooflinePoint) -> dict[str, Cell]:
    """A point as a row of the table."""
    return {
        **vars(point),
        "case": point.case_name,
        "intensity": point.flops / point.bytes_moved if point.bytes_moved else None,
        "flops_per_second": point.flops / point.seconds if point.flops else None,
        "bytes_per_second": point.bytes_moved / point.seconds if point.bytes_moved else None,
    }


def tones_of(rows: Iterable[Row]) -> list[tuple[str, str]]:
    """The families of kernels among these rows, those of most rows first: each with its class.

    So many have a colour of their own as can be told apart; the others share one.
    """
    counts = Counter(name_family(str(row["kernel"])) for row in rows)
    return [
        (family, f"key{place}" if place < _COLOURS else _REST)
        for place, (family, _) in enumerate(counts.most_common())
    ]


def _spot(row: Row, x: Cell, y: Cell, tones: Mapping[str, str]) -> Spot:
    return Spot(
        tone=tones[name_family(str(row["kernel"]))],
        x=x if isinstance(x, int | float) else 0.0,
        y=y if isinstance(y, int | float) else 0.0,
        title=_describe_spot(row),
        link=_series(row) or _job(row),
    )


def _describe_spot(row: Row) -> str:
    words = [
        _short(row["seconds"], "s"),
        _short(row["flops_per_second"], "FLOP/s"),
        _short(row["bytes_per_second"], "B/s"),
    ]
    share = row["roof_fraction"]
    words.append(f"{share:.0%} of the roof" if isinstance(share, float) else "")
    return f"{row['case']} {row['variant']}: {', '.join(filter(None, words))}"


def _short(value: Cell, unit: str) -> str:
    """Format a number with three figures in its own scale, cheaply, for thousands of points."""
    if not isinstance(value, int | float):
        return ""
    scale, prefix = next((step for step in _SCALES if value >= step[0]), _SCALES[-1])
    return f"{value / scale:.3g} {prefix}{unit}"


_SCALES = (
    *((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")),
    *((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n")),
)


def _bandwidths(reached: Reached | None) -> list[Roof]:
    if reached is None:
        return []
    return [
        Roof(name="reading", level=reached.read_bytes),
        Roof(name="copying", level=reached.copy_bytes),
    ]


def _rates(reached: Reached | None) -> list[Roof]:
    if reached is None:
        return []
    most = max(filter(None, (reached.read_bytes, reached.copy_bytes)), default=None)
    by_matrices = [
        Roof(name=f"matrix {kind.replace('_', '→')}", level=rate)
        for kind, rate in reached.matrices.items()
    ]
    return [
        Roof(name="memory", slope=most),
        Roof(name="fma f32", level=reached.fma_f32),
        Roof(name="fma f16", level=reached.fma_f16),
        Roof(name="dot i8", level=reached.dot_i8),
        *by_matrices,
    ]


def _nothing(key: str) -> str:
    return "nothing of this device was timed yet" if key else "no device is known yet"


def _series(row: Row) -> str | None:
    return f"/series/{row['series']}" if row["series"] else None


def _job(row: Row) -> str:
    return f"/jobs/{row['job']}"


def _kernel(row: Row) -> str:
    return f"/kernels/{row['kernel']}"
