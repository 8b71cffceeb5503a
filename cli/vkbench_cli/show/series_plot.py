"""The plot of a series: its timings over time, and where it changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import IO

from vkbench.words import units
from vkbench_db.ask.series import SeriesChange, SeriesPoint, SeriesRow

HEIGHT = 14  # lines of the field
LEAST_WIDTH = 24  # columns of the field
MARGIN = 0.05  # of the range of times, above and below
CHANGED = "▲"
DAY_SECONDS = 86400.0


@dataclass(frozen=True, kw_only=True)
class SeriesPlot:
    """What a plot of a series shows."""

    series: SeriesRow
    points: Sequence[SeriesPoint]  # those that count, the oldest first
    left_out: int  # timings that do not count
    changes: Sequence[SeriesChange]

    @property
    def title(self) -> str:
        """The plot's title: the case, metric and variant timed."""
        row = self.series
        return f"series {row.series}: {row.case_name}, {row.metric}, {row.variant}"

    @property
    def place(self) -> str:
        """Where it was timed, and how often."""
        row = self.series
        words = [f"{row.host}/{row.device_name}", units.count_of(len(self.points), "result")]
        if self.left_out:
            words.append(f"{self.left_out} left out")
        if row.sigma is not None:
            words.append(f"noise {row.sigma:.1%}")
        return ", ".join(words)

    @property
    def times(self) -> list[float]:
        """When each point was measured."""
        return [point.measured_at or 0.0 for point in self.points]

    def changed_at(self, change: SeriesChange) -> float | None:
        """When the first result after a change was measured; None if it is not drawn."""
        times = [point.measured_at for point in self.points if point.job >= change.after_job]
        is_inside = self.points[0].job < change.after_job
        return times[0] if times and is_inside else None


def text_plot(plot: SeriesPlot, width: int) -> Iterator[str]:
    """The plot as lines of text, none wider than `width` while that has room for a field."""
    values = [point.seconds for point in plot.points]
    pad = (max(values) - min(values)) * MARGIN or max(values) * MARGIN
    low, high = min(values) - pad, max(values) + pad
    unit, labels = units.seconds_column([high, (low + high) / 2, low])
    margin = max(map(len, (unit, *labels)))
    room = max(width - margin - 2, LEAST_WIDTH)
    first, last = plot.times[0], plot.times[-1]
    field = scatter(
        list(zip(plot.times, values, strict=True)),
        width=room,
        height=HEIGHT,
        low=(first, low),
        high=(last, high),
    )
    beside = dict(zip((0, HEIGHT // 2, HEIGHT - 1), labels, strict=True))
    yield f"{unit:>{margin}}"
    for number, line in enumerate(field):
        tick = "┤" if number in beside else "│"
        yield f"{beside.get(number, ''):>{margin}} {tick}{line}".rstrip()
    yield f"{'':>{margin}} └{'─' * room}"
    yield from _below(plot, room, " " * (margin + 2))


def _below(plot: SeriesPlot, room: int, indent: str) -> Iterator[str]:
    first, last = plot.times[0], plot.times[-1]
    marks = [" "] * room
    for change in plot.changes:
        if (moment := plot.changed_at(change)) is not None:
            marks[place(moment, first, last, room)] = CHANGED
    if CHANGED in marks:
        yield (indent + "".join(marks)).rstrip()
    begin, end = day(first), day(last)
    yield indent + (begin if begin == end else f"{begin}{end:>{max(room - len(begin), 0)}}")


def change_lines(plot: SeriesPlot) -> Iterator[str]:
    """What each mark means, the oldest first."""
    for change in reversed(plot.changes):
        if (moment := plot.changed_at(change)) is None:
            continue
        by = f" {change.ratio - 1:+.1%}" if change.ratio else ""
        cause = f", {change.cause}" if change.cause else ""
        of = f", regression {change.regression}" if change.regression else ""
        yield f"{CHANGED} {day(moment)}{by} {change.direction}: {change.state}{cause}{of}"


def day(moment: float) -> str:
    """The day of a moment, in local time."""
    return datetime.fromtimestamp(moment).strftime("%Y-%m-%d")


def write_png(plot: SeriesPlot, file: IO[bytes]) -> None:
    """Write the plot as a PNG, with the interval of each median."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    scale, unit = units.seconds_scale([point.seconds for point in plot.points])
    moments = [moment / DAY_SECONDS for moment in plot.times]  # as matplotlib counts dates
    values = [point.seconds / scale for point in plot.points]
    below = [max(point.seconds - point.low, 0.0) / scale for point in plot.points]
    above = [max(point.high - point.seconds, 0.0) / scale for point in plot.points]
    figure = Figure(figsize=(10, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.errorbar(moments, values, yerr=[below, above], fmt="o", markersize=3, elinewidth=0.8)
    for change in plot.changes:
        if (moment := plot.changed_at(change)) is not None:
            colour = "C3" if change.direction == "slower" else "C2"
            axes.axvline(moment / DAY_SECONDS, color=colour, linestyle="--")
    axes.xaxis_date()
    axes.set_title(f"{plot.title}\n{plot.place}", fontsize=10)
    axes.set_ylabel(unit)
    axes.set_xlabel("UTC")
    axes.grid(alpha=0.3)
    figure.autofmt_xdate()
    figure.savefig(file, dpi=120, format="png")


COLUMNS, ROWS = 2, 4  # dots of a character
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # of a dot, by row and column
_BLANK = 0x2800

XY = tuple[float, float]


def scatter(points: Sequence[XY], *, width: int, height: int, low: XY, high: XY) -> list[str]:
    """Lines of characters, the upper one first; `low` and `high` are opposite corners."""
    cells = [[0] * width for _ in range(height)]
    for x, y in points:
        column = place(x, low[0], high[0], width * COLUMNS)
        row = height * ROWS - 1 - place(y, low[1], high[1], height * ROWS)
        bit = _BITS[row % ROWS][column % COLUMNS]
        cells[row // ROWS][column // COLUMNS] |= bit
    return ["".join(chr(_BLANK + cell) for cell in line).replace("⠀", " ") for line in cells]


def place(value: float, low: float, high: float, count: int) -> int:
    """Which of `count` equal steps from low to high holds a value; the middle one of no range."""
    if high <= low:
        return count // 2
    return min(count - 1, max(0, int((value - low) / (high - low) * count)))
