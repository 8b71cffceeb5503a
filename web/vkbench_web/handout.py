"""The state of a lab as one file of HTML, for people who have no server: nothing is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import TYPE_CHECKING

import vkbench
from vkbench_db.ask import queries, series
from vkbench_db.ask.latest_results import roofline_points
from vkbench_db.ask.queries import DeviceRow
from vkbench_db.database import Transaction
from vkbench_db.demonstration import is_demonstration
from vkbench_detection.peers.pairs import peers_of_device
from vkbench_tables.regressions import sort_worst_first
from vkbench_web.matrix import Matrix, matrix
from vkbench_web.pages import heatmap, roofline
from vkbench_web.pages.one_series import History, histories
from vkbench_web.scatter import Scatter
from vkbench_web.shell import render_alone
from vkbench_web.small import Small, small

if TYPE_CHECKING:
    from vkbench_detection.regress.inbox import RegressionRow
    from vkbench_detection.series.calibrations import Reached

STYLES = ("style.css", "maps.css", "handout.css")
POINTS = 300  # of each series


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """One heat map of a device."""

    name: str
    map: Matrix
    cells: Mapping[heatmap.Key, heatmap.Heat]
    peer: str = ""  # that it holds ours against


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """What the handout says of one device."""

    device: DeviceRow
    maps: Sequence[HeatMap]
    roofline: Scatter | None
    reached: Reached | None
    histories: Sequence[tuple[History, Small]]


def handout(
    tx: Transaction, devices: Sequence[str], now: float, *, metric: str = "hot", most: int = 24
) -> str:
    """The page of these devices (keys), with the history of at most so many series of each."""
    from vkbench_detection.regress import inbox

    known = {row.key: row for row in queries.devices(tx)}
    reached = roofline.read_calibrations(tx, devices)
    sheets = [_sheet(tx, known[key], reached.get(key), metric, most) for key in devices]
    css = "\n".join(files("vkbench_web").joinpath("static", name).read_text() for name in STYLES)
    return render_alone(
        "handout.html",
        css=css,
        version=vkbench.__version__,
        made=datetime.fromtimestamp(now, UTC),
        demonstration=is_demonstration(tx),
        metric=metric,
        regressions=_open(inbox.regressions(tx, devices=devices)),
        sheets=[sheet for sheet in sheets if sheet.maps or sheet.roofline],
    )


def _open(rows: Sequence[RegressionRow]) -> list[RegressionRow]:
    return [row for row in sort_worst_first(rows) if row.state == "open"]


def _sheet(
    tx: Transaction, device: DeviceRow, reached: Reached | None, metric: str, most: int
) -> Sheet:
    rows = [roofline.point_row(p) for p in roofline_points(tx, device=device.key, metric=metric)]
    return Sheet(
        device=device,
        maps=list(_maps(tx, device, metric)),
        roofline=roofline.picture(rows, reached, "flops"),
        reached=reached,
        histories=_histories(tx, device, metric, most),
    )


def _maps(tx: Transaction, device: DeviceRow, metric: str) -> Iterator[HeatMap]:
    shown = [("correctness", ""), ("roof", "")]
    shown += [("peer", peer) for peer in peers_of_device(tx, device.key)]
    for show, peer in shown:
        if one := _map(tx, device, show, metric, peer):
            yield one


def _map(tx: Transaction, device: DeviceRow, show: str, metric: str, peer: str) -> HeatMap | None:
    options = heatmap.Asked(
        device=device.key,
        show=show,
        metric=metric,
        mode="",
        over="median",
        against="",
        peer=peer,
        everything=False,
        cache_bytes=device.facts.llc_bytes,
    )
    cells = heatmap.cells_of(tx, options)
    if not cells:
        return None
    name = f"Ratio to {peer}" if peer else heatmap.SHOWS[show]
    return HeatMap(name=name, map=matrix(cells.keys()), cells=cells, peer=peer)


def _histories(
    tx: Transaction, device: DeviceRow, metric: str, most: int
) -> list[tuple[History, Small]]:
    """Series that changed, the newest change first, and then the longest ones."""
    changed = series.list_changed(tx, device.key, metric, most)
    texts = {"device": [device.key], "metric": [metric]}
    series_filter = series.SeriesFilter(texts=texts)
    page = series.page(tx, series_filter, sort="results", descending=True, limit=most)
    numbers = dict.fromkeys([*changed, *(row.series for row in page)])
    read = histories(tx, list(numbers)[:most], POINTS)
    return [
        (history, drawn) for history in read if (drawn := small(history.points, history.changes))
    ]
