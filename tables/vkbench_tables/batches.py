"""Which kernels and code paths give a row the same bits in batches of any size, as a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from vkbench.configuration import variant_of
from vkbench.job import JobState
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

COLUMNS = (
    Column(key="device_name", heading="device", lifted=True),
    Column(key="kernel", heading="kernel", rank=Rank.KEY),
    Column(key="variant", heading="variant", rank=Rank.KEY),
    Column(key="batch", heading="rows alike", rank=Rank.KEY),
    Column(key="cases", heading="cases", kind=ValueKind.COUNT),
    Column(key="wrong", heading="wrong", kind=ValueKind.COUNT),
    Column(key="formats", heading="wrong in", prose=True),
)


def table_of_batches(rows: Sequence[Mapping[str, Cell]]) -> Table:
    """Results of batches, summed up by kernel and code path."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Cell]]] = defaultdict(list)
    for row in rows:
        if row["verdict"] in (JobState.PASSED, JobState.WRONG):
            variant = variant_of(str(row["variant"]))
            groups[str(row["device_name"]), str(row["kernel"]), variant].append(row)
    return Table(columns=COLUMNS, rows=[_row(*key, group) for key, group in groups.items()])


def _row(
    device: str, kernel: str, variant: str, group: Sequence[Mapping[str, Cell]]
) -> Mapping[str, Cell]:
    wrong = [row for row in group if row["verdict"] == JobState.WRONG]
    return {
        "device_name": device,
        "kernel": kernel,
        "variant": variant,
        "batch": "no" if wrong else "yes",
        "cases": len(group),
        "wrong": len(wrong),
        "formats": ", ".join(dict.fromkeys(_formats(row) for row in wrong)),
    }


def _formats(row: Mapping[str, Cell]) -> str:
    return ":".join(filter(None, (str(row["format"]), str(row["types"] or ""))))
