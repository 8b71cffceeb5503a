"""Comparisons with peers as a table: ours, theirs, and how many times as fast ours is."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING

from vkbench.words.units import count_of
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

if TYPE_CHECKING:
    from vkbench_detection.peers.pairs import Uncompared
    from vkbench_detection.peers.standings import Standing

TOO_NOISY = "too noisy"  # in place of a ratio: a side's interval is too wide
NAMED = 2  # cases of a reason that a line names

COLUMNS = (
    Column(key="host", heading="host", lifted=True),
    Column(key="device_name", heading="device", lifted=True),
    Column(key="device", heading="device key", hidden=True),
    Column(key="peer", heading="peer", lifted=True),
    Column(key="case", heading="case", rank=Rank.KEY),
    Column(key="ours_seconds", heading="ours", kind=ValueKind.SECONDS, rank=Rank.KEY),
    Column(key="ours_spread", heading="±", kind=ValueKind.PERCENT, joined=True),
    Column(key="theirs_seconds", heading="theirs", kind=ValueKind.SECONDS, rank=Rank.KEY),
    Column(key="theirs_spread", heading="±", kind=ValueKind.PERCENT, joined=True),
    Column(key="ratio", heading="theirs/ours", kind=ValueKind.NUMBER, rank=Rank.KEY),
    Column(key="ratio_low", heading="from", kind=ValueKind.NUMBER),
    Column(key="ratio_high", heading="to", kind=ValueKind.NUMBER, joined=True),
    Column(key="ratio_before", heading="before", kind=ValueKind.NUMBER),
    Column(key="change", heading="", rank=Rank.KEY),
    Column(key="settings", heading="how", prose=True),
    Column(key="reason", heading="not compared because", hidden=True),
    Column(key="clock", heading="clock", hidden=True),
    Column(key="peer_clock", heading="peer's clock", hidden=True),
    Column(key="run", heading="run", kind=ValueKind.ID, hidden=True),
    Column(key="job", heading="job", kind=ValueKind.ID, hidden=True),
    Column(key="finished_at", heading="finished", kind=ValueKind.TIME, hidden=True),
)


def table_of_case(standings: Sequence[Standing]) -> Table:
    """A row for each peer that one case of one device was compared with."""
    known = ("host", "device_name", "device", "case")
    columns = [column for column in COLUMNS if column.key not in known]
    return Table(columns=columns, rows=[_row(standing) for standing in standings])


def table(standings: Sequence[Standing], left: Sequence[Uncompared] = ()) -> Table:
    """A row a comparison, then a row a case without one; the geometric mean of the ratios."""
    rows = [*map(_row, standings), *map(_row_without, left)]
    return Table(columns=COLUMNS, rows=rows, footer=_mean(standings))


def reasons(left: Sequence[Uncompared]) -> list[str]:
    """Why cases were not compared: a line for each reason, most cases first."""
    cases: dict[tuple[str, str], dict[str, None]] = {}
    for case in left:
        cases.setdefault((case.peer, case.reason), {})[case.case_name] = None
    ordered = sorted(cases.items(), key=lambda item: -len(item[1]))
    return [
        f"{count_of(len(names), 'case')} not compared: {reason} ({_some(list(names))})"
        for (_, reason), names in ordered
    ]


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _row_without(left: Uncompared) -> dict[str, Cell]:
    empty: dict[str, Cell] = dict.fromkeys(column.key for column in COLUMNS)
    cells: dict[str, Cell] = {key: getattr(left, key) for key in vars(left) if key in empty}
    return empty | cells | {"case": left.case_name}


def _row(standing: Standing) -> dict[str, Cell]:
    pair, ratio = standing.pair, standing.ratio
    high = ratio.high if ratio and isfinite(ratio.high) else None
    return {
        **vars(pair),
        "case": pair.case_name,
        "ours_seconds": pair.ours,
        "ours_spread": (pair.ours_high - pair.ours_low) / 2 / pair.ours,
        "theirs_seconds": pair.theirs,
        "theirs_spread": (pair.theirs_high - pair.theirs_low) / 2 / pair.theirs,
        "ratio": ratio.ratio if ratio else None,
        "ratio_low": ratio.low if ratio and ratio.low > 0 else None,
        "ratio_high": high,
        "ratio_before": standing.before,
        "change": "fell" if standing.has_fallen else "" if ratio else TOO_NOISY,
    }


def _mean(standings: Sequence[Standing]) -> dict[str, Cell] | None:
    from vkbench_detection.statistics.ratios import geometric_mean

    ratios = [
        (standing.ratio.ratio, standing.pair.case_name) for standing in standings if standing.ratio
    ]
    mean = geometric_mean([ratio for ratio, _ in ratios], alike=[case for _, case in ratios])
    if mean is None or mean.count < 2:
        return None
    return {
        "case": f"geomean of {mean.count}",
        "ratio": mean.value,
        "ratio_low": mean.low,
        "ratio_high": mean.high,
    }
