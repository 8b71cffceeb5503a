"""A case divided among devices: a row for each number of shards, against the first one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vkbench.configuration import variant_of
from vkbench.result import COPIES, HOT, Result, Timing
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

COLUMNS = (
    Column(key="case", heading="case", lifted=True),
    Column(key="shards", heading="shards", kind=ValueKind.COUNT, rank=Rank.KEY),
    Column(key="devices", heading="devices", kind=ValueKind.COUNT, rank=Rank.KEY),
    Column(key="how", heading="how", rank=Rank.KEY),
    Column(key="variant", heading="variant", rank=Rank.MINOR),
    Column(key="verdict", heading="verdict", rank=Rank.KEY),
    Column(key="nmse", heading="nmse", kind=ValueKind.NUMBER),
    Column(key="compute_seconds", heading="compute", kind=ValueKind.SECONDS),
    Column(key="compute_speedup", heading="times", kind=ValueKind.NUMBER, joined=True),
    Column(key="whole_seconds", heading="with copies", kind=ValueKind.SECONDS),
    Column(key="whole_speedup", heading="times", kind=ValueKind.NUMBER, joined=True),
    Column(key="flops_per_second", heading="compute", kind=ValueKind.FLOP_RATE, rank=Rank.MINOR),
    Column(key="reason", heading="remark", prose=True),
)


@dataclass(frozen=True, kw_only=True)
class ShardsRow:
    """What came of a number of shards."""

    shards: int
    devices: int
    is_simulated: bool
    result: Result


def shards_table(rows: Sequence[ShardsRow]) -> Table:
    """A row for each number of shards; speed-ups are those over the first row."""
    return Table(columns=COLUMNS, rows=[_row(row, rows[0]) for row in rows])


def _row(row: ShardsRow, first: ShardsRow) -> dict[str, Cell]:
    result, verdict = row.result, row.result.verdict
    compute, whole = (_timing(result, metric) for metric in (HOT, COPIES))
    return {
        "case": result.case,
        "shards": row.shards,
        "devices": row.devices,
        "how": _how(row),
        "variant": variant_of(result.variant),
        "verdict": str(result.outcome),
        "nmse": verdict.nmse if verdict else None,
        "compute_seconds": compute and compute.seconds,
        "compute_speedup": _speedup(_timing(first.result, HOT), compute),
        "whole_seconds": whole and whole.seconds,
        "whole_speedup": _speedup(_timing(first.result, COPIES), whole),
        "flops_per_second": compute.flops / compute.seconds if compute else None,
        "reason": result.reason or None,
    }


def _timing(result: Result, metric: str) -> Timing | None:
    timings = (timing for timing in result.timings if timing.metric == metric)
    return next((timing for timing in timings if timing.seconds), None)


def _how(row: ShardsRow) -> str:
    if row.shards == 1:
        return "alone"
    return "simulated" if row.is_simulated else "side by side"


def _speedup(before: Timing | None, after: Timing | None) -> float | None:
    return before.seconds / after.seconds if before and after else None
