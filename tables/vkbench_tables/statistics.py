"""What drivers made of kernels, and what of it changed between two sides, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from vkbench.result import Statistic
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

if TYPE_CHECKING:
    from vkbench_db.ask.results import ResultRow
    from vkbench_detection.compare.statistics import MovedStatistic

NOTHING = "no statistics: `vkbench run --property compile` asks drivers for them"
UNMOVED = "no statistic of a driver changed"
_PLACE = (
    Column(key="host", heading="host", lifted=True),
    Column(key="device_name", heading="device", lifted=True),
    Column(key="device", heading="key", hidden=True),
    Column(key="case", heading="case", rank=Rank.KEY),
)
COLUMNS = (
    *_PLACE,
    Column(key="driver_version", heading="driver version", hidden=True),
    Column(key="variant", heading="variant", rank=Rank.MINOR),
    Column(key="name", heading="statistic", rank=Rank.KEY),
    Column(key="value", heading="value", kind=ValueKind.VALUE, rank=Rank.KEY),
    Column(key="spread", heading="±", kind=ValueKind.NUMBER),
    Column(key="unit", heading="unit"),
    Column(key="note", heading="why there is none", prose=True),
    Column(key="run", heading="run", kind=ValueKind.ID, hidden=True),
    Column(key="job", heading="job", kind=ValueKind.ID, hidden=True),
)
MOVED = (
    *_PLACE,
    Column(key="variant", heading="variant", rank=Rank.MINOR),
    Column(key="name", heading="statistic", rank=Rank.KEY),
    Column(key="old", heading="old", kind=ValueKind.VALUE, rank=Rank.KEY),
    Column(key="new", heading="new", kind=ValueKind.VALUE, rank=Rank.KEY),
    Column(key="ratio", heading="new/old", kind=ValueKind.RATIO),
    Column(key="unit", heading="unit"),
    Column(key="old_job", heading="old job", kind=ValueKind.ID, hidden=True),
    Column(key="new_job", heading="job", kind=ValueKind.ID, hidden=True),
)


def list_statistics(
    results: Iterable[ResultRow], by_job: Mapping[int, Sequence[Statistic]]
) -> Table:
    """A row for each statistic of each job, in the order of the results."""
    first = {row.job: row for row in reversed(list(results))}
    rows = [
        _cells(first[job], statistic)
        for job in reversed(first)
        for statistic in by_job.get(job, ())
    ]
    return Table(columns=COLUMNS, rows=rows, nothing=NOTHING)


def _cells(row: ResultRow, statistic: Statistic) -> dict[str, Cell]:
    return {
        **vars(row),
        **vars(statistic),
        "case": row.case_name,
        "variant": row.variant_run or row.variant,
    }


def table_of_moved(moved: Sequence[MovedStatistic]) -> Table:
    """A row for each statistic that is not the same on both sides."""
    return Table(columns=MOVED, rows=[_cells_of_moved(one) for one in moved], nothing=UNMOVED)


def _cells_of_moved(moved: MovedStatistic) -> dict[str, Cell]:
    old, new, work = moved.old.value, moved.new.value, moved.work
    return {
        "host": work.host,
        "device_name": work.device_name,
        "device": work.device,
        "case": work.case_name,
        "variant": work.variant,
        "name": moved.new.name,
        "old": old,
        "new": new,
        "ratio": new / old if old and new is not None else None,
        "unit": moved.new.unit,
        "old_job": moved.old_job,
        "new_job": moved.new_job,
    }
