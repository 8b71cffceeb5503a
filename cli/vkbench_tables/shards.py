"""A case divided among devices: a row for each number of shards, against the first one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


def shards_table(case: str, said: Sequence[Mapping[str, Cell]]) -> Table:
    """What a process said of each number of shards; speed-ups are those over the first row."""
    return Table(columns=COLUMNS, rows=[_row(case, each, said[0]) for each in said])


def _row(case: str, said: Mapping[str, Cell], first: Mapping[str, Cell]) -> dict[str, Cell]:
    times = {key: said.get(key) for key in ("compute_seconds", "whole_seconds")}
    devices = said["devices"]
    assert isinstance(devices, list)
    return {
        "case": case,
        "shards": said["shards"],
        "devices": len(devices),
        "how": _how(said),
        "variant": said["variant"],
        "verdict": "passed" if said["passed"] else "wrong",
        "nmse": said["nmse"],
        **times,
        "compute_speedup": _ratio(first.get("compute_seconds"), times["compute_seconds"]),
        "whole_speedup": _ratio(first.get("whole_seconds"), times["whole_seconds"]),
        "flops_per_second": _ratio(said.get("flops"), times["compute_seconds"]),
        "reason": said["reason"] or None,
    }


def _how(said: Mapping[str, Cell]) -> str:
    if said["shards"] == 1:
        return "alone"
    return "simulated" if said["simulated"] else "side by side"


def _ratio(above: Cell, below: Cell) -> float | None:
    numbers = isinstance(above, int | float) and isinstance(below, int | float)
    return float(above) / float(below) if numbers and below else None  # type: ignore[arg-type]
