"""`vkbench plot`: the history of one series in the terminal, or as a picture."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from vkbench.errors import NothingToDo, UsageError
from vkbench.job import SHARDS
from vkbench.peers import BY_NAME
from vkbench.result import COPIES, Side
from vkbench.words import names
from vkbench.words.visible import visible
from vkbench_cli.files import check_writable, whole_file
from vkbench_cli.options.records import Devices, Store
from vkbench_cli.show.printing import ReaderLeft
from vkbench_cli.show.telling import room, say, tell
from vkbench_cli.store import reading

if TYPE_CHECKING:
    from vkbench_cli.show.series_plot import SeriesPlot
    from vkbench_db.ask.series import SeriesRow
    from vkbench_db.database import Transaction

METRICS = ("hot", "cold", COPIES)
_MOST = 1000  # series of one case
WIDTH = 80  # where there is no terminal
POINTS = 1000


def plot(
    *,
    series: Annotated[
        str,
        Argument(
            metavar="SERIES",
            help="A series: its number in `vkbench noise`, or the name of its case.",
        ),
    ],
    metric: Annotated[
        str,
        Option(metavar="METRIC", help="Of a case: the series of this metric, hot, cold or copies."),
    ] = "hot",
    device: Devices = [],  # noqa: B006
    last: Annotated[
        int, Option(metavar="N", min=2, help="Draw at most the last N results.")
    ] = POINTS,
    png: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write a picture to FILE, with the interval of each median."),
    ] = None,
    store: Store,
) -> None:
    """Plot the history of one series, with the points at which it changed.

    Draws with characters of braille, as wide as the terminal. --png writes a picture instead,
    which needs matplotlib: pip install 'vkbench[plot]'.

    \b
    vkbench plot 12
    vkbench plot mul_mat_vec/q4_0/m4096_n1_k14336 --device H200 --metric cold
    vkbench plot 12 --png history.png
    """
    from vkbench_cli.show.series_plot import change_lines, text_plot, write_png

    if png:
        check_writable(png)
    with reading(store.settings()) as tx:
        drawn = _read_plot(tx, _find_series(tx, series, metric, device), last)
    if png:
        with whole_file(png) as file:
            write_png(drawn, file)
        tell(f"{drawn.title} -> {png}")
        return
    width = room(sys.stdout) or WIDTH
    try:
        for line in (drawn.title, drawn.place, *text_plot(drawn, width), *change_lines(drawn)):
            say(visible(line))
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise ReaderLeft from error


def _read_plot(tx: Transaction, row: SeriesRow, last: int) -> SeriesPlot:
    from vkbench_cli.show.series_plot import SeriesPlot
    from vkbench_db.ask import series

    points = series.points(tx, row.series, last)
    counted = [point for point in points if not point.flag]
    if not counted:
        raise NothingToDo(f"series {row.series} has no timing that counts")
    return SeriesPlot(
        series=row,
        points=counted,
        left_out=len(points) - len(counted),
        changes=series.changes(tx, row.series),
    )


def _find_series(tx: Transaction, word: str, metric: str, devices: list[str]) -> SeriesRow:
    """The series with this number, or of this case; UsageError lists the candidates."""
    from vkbench_db.ask import series
    from vkbench_db.ask.devices.names import device_keys

    if word.isdecimal():
        return series.one(tx, int(word))
    texts = {"case_name": [word], "metric": [names.pick(metric, METRICS, "metric")]}
    if devices:
        texts["device"] = device_keys(tx, devices)
    candidates = series.page(tx, series.SeriesFilter(texts=texts), limit=_MOST)
    # a case that was divided too means its own series, unless what shards alone have is asked for
    candidates = [row for row in candidates if row.track != SHARDS] or candidates
    # that of a peer is the peer's, not our kernel's in turns with it
    candidates = [
        row for row in candidates if row.side == Side.THEIRS or row.variant not in BY_NAME
    ]
    if not candidates:
        raise UsageError(f"no {metric} series of '{word}': `vkbench noise` lists them all")
    if len(candidates) > 1:
        descriptions = [
            f"{row.series} ({_describe_series(row)})" for row in candidates[: names.MOST_TOLD]
        ]
        more = " and more" if len(candidates) > names.MOST_TOLD else ""
        raise UsageError(f"'{word}' may be series {', '.join(descriptions)}{more}: give its number")
    return candidates[0]


def _describe_series(row: SeriesRow) -> str:
    return f"{row.case_name} on {row.host}/{row.device_name}, {row.variant}, {row.track}"
