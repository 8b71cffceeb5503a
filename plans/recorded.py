"""Comparisons with other people's kernels, recorded on one GPU: recorded.csv beside this module.

`make pages` makes that file from the exports in docs/results/, which has the whole page.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

RECORDED = Path(__file__).with_name("recorded.csv")


@dataclass(frozen=True, kw_only=True)
class RecordedComparison:
    """The same work by both sides, hot, from plain inputs to the result."""

    case: str
    peer: str
    theirs_us: float
    ours_us: float
    device: str  # and driver
    build: str  # of our kernels: its bundle, and the day

    @property
    def ratio(self) -> float:
        """How many times as fast as theirs ours is."""
        return self.theirs_us / self.ours_us

    @property
    def said(self) -> str:
        """Both times, in words."""
        theirs, ours = f"{self.peer} {self.theirs_us:g} us", f"ours {self.ours_us:g} us"
        return f"{self.case}: {theirs}, {ours} by bundle {self.build}"


def recorded(cases: Iterable[str], peer: str) -> list[RecordedComparison]:
    """What was recorded of these cases beside a peer, such as torch."""
    wanted = set(cases)
    text = RECORDED.read_text(encoding="utf-8")
    found = (
        RecordedComparison(
            case=row["case"],
            peer=row["peer"],
            theirs_us=float(row["theirs_us"]),
            ours_us=float(row["ours_us"]),
            device=row["device"],
            build=row["build"],
        )
        for row in csv.DictReader(text.splitlines())
    )
    return [row for row in found if row.case in wanted and row.peer == peer]
