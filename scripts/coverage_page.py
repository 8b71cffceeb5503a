"""The page of the checklist: `python scripts/coverage_page.py > docs/coverage.md`.

docs/coverage.csv has a row an item, with its evidence: the kernels that are it (name, or
name:format, all of them run by the sweep over the catalogue), places that show it, a command that
shows it. A place is `file::test?word` or `file?word`: the test, or the file, has to mention the
word. An item without evidence says "not here: " and the reason in its note.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROWS = Path(__file__).parents[1] / "docs/coverage.csv"
SWEEP = "tests/gpu/test_catalogue.py"  # runs every kernel
ABSENT = "not here: "
PLANS = (  # name, its last item
    ("plan of Vulkan kernels for Candle", 43),
    ("roadmap of its Vulkan backend", 162),
    ("implementation plan", 305),
    ("guide to ROCm's quantised kernels", 325),
)
HEAD = """\
# Coverage

What four plans for inference kernels ask for, item by item, and what shows it: a kernel, which
[the sweep over the catalogue](../tests/gpu/test_catalogue.py) runs in every format and on every
code path on lavapipe or SwiftShader; a test; a page; or a command. Where there
is nothing, the remark says "not here" and why.

Of {all} items {shown} are shown and {absent} are not here.

`python scripts/coverage_page.py > docs/coverage.md` makes this page from
[coverage.csv](coverage.csv). `tests/contract/test_coverage.py` checks that each item has evidence
or says "not here", and that what is named as evidence exists and mentions what it should show.
"""


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


def page() -> str:
    """The page, as Markdown."""
    found = items()
    shown = sum(item.is_shown for item in found)
    head = HEAD.format(all=len(found), shown=shown, absent=len(found) - shown)
    return "\n".join((head, *_sections(found)))


def _sections(found: list[Item]) -> Iterator[str]:
    first = 1
    for name, last in PLANS:
        ours = [item for item in found if first <= item.number <= last]
        shown = sum(item.is_shown for item in ours)
        yield f"## The {name}: {len(ours)} items, {shown} shown\n"
        yield "| # | item | kernels | shown by | remark |\n|--:|---|---|---|---|"
        yield from (_line(item) for item in ours)
        yield ""
        first = last + 1


def _line(item: Item) -> str:
    kernels = " ".join(f"`{kernel}`" for kernel in item.kernels)
    shown = [_link(place) for place in item.places]
    shown += [f"`{item.command}`"] if item.command else []
    if item.kernels and not shown:
        shown = [f"[sweep](../{SWEEP})"]
    return f"| {item.number} | {item.text} | {kernels} | {', '.join(shown)} | {item.note} |"


def _link(place: str) -> str:
    path, _, test = place.partition("?")[0].partition("::")
    return f"[{test or Path(path).name}](../{path})"


if __name__ == "__main__":
    print(page(), end="")
