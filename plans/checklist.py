"""The checklist of what the plans ask for: checklist.csv, a row an item, with its evidence.

Evidence is the kernels that an item is (name, or name:format, all of them run by the sweep over the
catalogue), places that show it, or a command that does. A place is `file::test?word` or
`file?word`: the test, or the file, has to mention the word. An item without evidence says
"not here: " and the reason in its note. tests/plans/test_checklist.py holds the rows to that.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from vkbench_tables.table import Column, Rank, Table, ValueKind

ROWS = Path(__file__).with_name("checklist.csv")
ABSENT = "not here: "
PLANS = (  # name, its last item
    ("plan of Vulkan kernels for Candle", 43),
    ("roadmap of its Vulkan backend", 162),
    ("implementation plan", 305),
    ("guide to ROCm's quantised kernels", 325),
)
COLUMNS = (
    Column(key="plan", heading="plan", rank=Rank.MINOR),
    Column(key="number", heading="#", kind=ValueKind.COUNT, rank=Rank.KEY),
    Column(key="item", heading="item", rank=Rank.KEY),
    Column(key="standing", heading="is", rank=Rank.KEY),
    Column(key="kernels", heading="kernels", prose=True),
    Column(key="shown", heading="shown by", prose=True),
    Column(key="note", heading="remark", prose=True),
)


@dataclass(frozen=True)
class Item:
    """One item of the checklist."""

    number: int
    text: str
    kernels: tuple[str, ...]  # name or name:format
    places: tuple[str, ...]  # file::test?word or file?word
    command: str
    note: str

    @property
    def plan(self) -> str:
        """The plan that asks for it."""
        return next(name for name, last in PLANS if self.number <= last)

    @property
    def is_shown(self) -> bool:
        """Whether there is evidence of it."""
        return bool(self.kernels or self.places or self.command)


def items() -> list[Item]:
    """All items, in order."""
    with ROWS.open(newline="") as lines:
        return [
            Item(int(number), text, tuple(kernels.split()), tuple(places.split()), command, note)
            for number, text, kernels, places, command, note in list(
                csv.reader(lines, delimiter="|")
            )[1:]
        ]


def table() -> Table:
    """Every item, with what shows it."""
    rows = [
        {
            "plan": item.plan,
            "number": item.number,
            "item": item.text,
            "standing": "shown" if item.is_shown else "not here",
            "kernels": list(item.kernels),
            "shown": [*(place.partition("?")[0] for place in item.places), *_command(item)],
            "note": item.note.removeprefix(ABSENT),
        }
        for item in items()
    ]
    return Table(columns=COLUMNS, rows=rows)


def _command(item: Item) -> list[str]:
    return [f"`{item.command}`"] if item.command else []
