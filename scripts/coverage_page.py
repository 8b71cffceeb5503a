"""The page of the checklist: `python scripts/coverage_page.py > docs/coverage.md`.

docs/coverage.csv has a row an item: the kernels that are it (name, or name:format), the files where
it is shown (file, or file::test), and what else there is to say. A `-` for files means that the
note is the reason why there is none.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROWS = Path(__file__).parents[1] / "docs/coverage.csv"
SWEEP = "tests/gpu/test_catalogue.py"  # runs every kernel
PLANS = (  # name, its last item
    ("plan of Vulkan kernels for Candle", 43),
    ("roadmap of its Vulkan backend", 162),
    ("implementation plan", 305),
    ("guide to ROCm's quantised kernels", 325),
)
HEAD = """\
# Coverage

What four plans for inference kernels ask for, item by item, and where it is: the kernel that does
it, a test or page that shows it, or the reason why there is none. Each kernel is checked by
[the sweep over the catalogue](../tests/gpu/test_catalogue.py) on two CPU drivers, and by suites on
GPUs. `python scripts/coverage_page.py > docs/coverage.md` makes this page from
[coverage.csv](coverage.csv); `tests/contract/test_coverage.py` looks that every kernel, file and
test named here exists.
"""


@dataclass(frozen=True)
class Item:
    """One item of the checklist."""

    number: int
    text: str
    kernels: tuple[str, ...]  # name or name:format
    places: tuple[str, ...]  # file or file::test
    note: str

    @property
    def is_left_out(self) -> bool:
        """Whether nothing shows it, for the reason in the note."""
        return self.places == ("-",)


def items() -> list[Item]:
    """All items, in order."""
    with ROWS.open(newline="") as lines:
        return [
            Item(int(number), text, tuple(kernels.split()), tuple(places.split()), note)
            for number, text, kernels, places, note in list(csv.reader(lines, delimiter="|"))[1:]
        ]


def page() -> str:
    """The page, as Markdown."""
    return "\n".join((HEAD, *_sections(items())))


def _sections(found: list[Item]) -> Iterator[str]:
    first = 1
    for name, last in PLANS:
        ours = [item for item in found if first <= item.number <= last]
        yield f"## The {name}: {len(ours)} items\n"
        yield "| # | item | kernels | shown by | remark |\n|--:|---|---|---|---|"
        yield from (_line(item) for item in ours)
        yield ""
        first = last + 1


def _line(item: Item) -> str:
    kernels = " ".join(f"`{kernel}`" for kernel in item.kernels)
    places = "" if item.is_left_out else ", ".join(_link(place) for place in item.places)
    swept = f"[sweep](../{SWEEP})" if item.kernels and not places else places
    return f"| {item.number} | {item.text} | {kernels} | {swept} | {item.note} |"


def _link(place: str) -> str:
    path, _, test = place.partition("::")
    return f"[{test or Path(path).name}](../{path})"


if __name__ == "__main__":
    print(page(), end="")
