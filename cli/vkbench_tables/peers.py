"""Comparisons with peers as a table: ours, theirs, and how many times as fast ours is."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING

from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

if TYPE_CHECKING:
    from vkbench_db.ask.peers import PeerPair
    from vkbench_detection.statistics.ratios import Ratio

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
    Column(key="settings", heading="how", prose=True),
    Column(key="clock", heading="clock", hidden=True),
    Column(key="peer_clock", heading="peer's clock", hidden=True),
    Column(key="run", heading="run", kind=ValueKind.ID, hidden=True),
    Column(key="job", heading="job", kind=ValueKind.ID, hidden=True),
    Column(key="finished_at", heading="finished", kind=ValueKind.TIME, hidden=True),
)


def ratio_of(pair: PeerPair) -> Ratio:
    """How many times as fast as theirs ours is."""
    from vkbench_detection.statistics.ratios import Estimate, of_estimates

    ours = Estimate(value=pair.ours, low=pair.ours_low, high=pair.ours_high)
    theirs = Estimate(value=pair.theirs, low=pair.theirs_low, high=pair.theirs_high)
    return of_estimates(ours, theirs)


def table(pairs: Sequence[PeerPair]) -> Table:
    """A row a comparison, and the geometric mean of their ratios."""
    return Table(columns=COLUMNS, rows=[_row(pair) for pair in pairs], footer=_mean(pairs))


def _row(pair: PeerPair) -> dict[str, Cell]:
    ratio = ratio_of(pair)
    return {
        "host": pair.host,
        "device_name": pair.device_name,
        "device": pair.device,
        "peer": pair.peer,
        "case": pair.case_name,
        "ours_seconds": pair.ours,
        "ours_spread": (pair.ours_high - pair.ours_low) / 2 / pair.ours,
        "theirs_seconds": pair.theirs,
        "theirs_spread": (pair.theirs_high - pair.theirs_low) / 2 / pair.theirs,
        "ratio": ratio.ratio,
        "ratio_low": ratio.low if ratio.low > 0 else None,
        "ratio_high": ratio.high if isfinite(ratio.high) else None,
        "settings": pair.settings,
        "clock": pair.clock,
        "peer_clock": pair.peer_clock,
        "run": pair.run,
        "job": pair.job,
        "finished_at": pair.finished_at,
    }


def _mean(pairs: Sequence[PeerPair]) -> dict[str, Cell] | None:
    from vkbench_detection.statistics.ratios import geometric_mean

    mean = geometric_mean([ratio_of(pair).ratio for pair in pairs])
    if mean is None or mean.count < 2:
        return None
    return {
        "case": f"geomean of {mean.count}",
        "ratio": mean.value,
        "ratio_low": mean.low,
        "ratio_high": mean.high,
    }
