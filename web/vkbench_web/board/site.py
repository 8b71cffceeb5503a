"""Writes a board: a page and a badge for each class of devices and case, and the lists above."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

import vkbench
from vkbench.errors import UsageError
from vkbench_db.batches import batches
from vkbench_detection.board.contents import (
    ShownPage,
    list_dirty,
    note_written,
    renew_all_pages,
    take_out_gone,
)
from vkbench_detection.board.index import Index, open_index
from vkbench_detection.board.standings import SHARES, CasePage, Standing, read_pages
from vkbench_web.board.crew import Crew
from vkbench_web.board.names import case_path
from vkbench_web.board.pictures import Badge, Scale, draw_groups
from vkbench_web.shell import cut, moment, render_alone, seconds

MARK: Final = ".vkbench-board"  # file that says that a folder is a board, and of which index
LEAST_PAGES: Final = 500  # of a process
PARTS_OF_PROCESS: Final = 2  # so that none waits long for the others
_LABEL: Final = 60  # characters of a badge's label


@dataclass(frozen=True, kw_only=True)
class Site:
    """A folder that becomes a board."""

    folder: Path
    title: str

    def check(self) -> None:
        """UsageError if the folder holds something else than a board."""
        if self.folder.is_dir() and not self._mark.is_file() and any(self.folder.iterdir()):
            raise UsageError(f"{self.folder} is neither empty nor a board: give another folder")
        if self.folder.exists() and not self.folder.is_dir():
            raise UsageError(f"{self.folder} is no folder")

    def is_of(self, index: Index) -> bool:
        """Whether the pages that are there were made from this index, by this version."""
        return self._mark.is_file() and self._mark.read_text() == self._words(index)

    def put_mark(self, index: Index) -> None:
        """Note that the folder has all pages of an index."""
        self.put(MARK, self._words(index))

    def put(self, path: str, text: str) -> None:
        """Write a file, unless it is there already with the same content."""
        place, data = self.folder / path, text.encode(errors="replace")
        try:
            if place.stat().st_size == len(data) and place.read_bytes() == data:
                return
        except FileNotFoundError:
            if not place.parent.is_dir():
                place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)

    def put_page(self, path: str, template: str, **values: Any) -> None:
        """Write a page of a template."""
        root = "../" * path.count("/")
        common = {"root": root, "title": self.title, "version": vkbench.__version__}
        self.put(path, render_alone(f"board/{template}", **common, **values))

    def remove(self, path: str) -> None:
        """Remove a file, and the folders that have nothing in them then."""
        place = self.folder / path
        place.unlink(missing_ok=True)
        for folder in place.relative_to(self.folder).parents:
            there = self.folder / folder
            if there.is_dir() and not any(there.iterdir()):
                there.rmdir()

    @property
    def _mark(self) -> Path:
        return self.folder / MARK

    def _words(self, index: Index) -> str:
        return f"{vkbench.__version__}\n{index.identity}\n{self.title}\n"


def write_case_pages(site: Site, index: Index, crew: Crew, state: Path) -> int:
    """Write the pages that changed since the last build, or all of a new folder; return how many.

    A page whose last timing is gone goes too. Each process reads the index from its own file.
    """
    everything = not site.is_of(index)
    (site.folder / MARK).unlink(missing_ok=True)  # until all is written
    if everything:
        renew_all_pages(index)
    numbers = list_dirty(index)
    each = max(LEAST_PAGES, -(-len(numbers) // (PARTS_OF_PROCESS * crew.size)))
    parts = [
        _Part(site=site, state=state, first=own[0], last=own[-1]) for own in batches(numbers, each)
    ]
    written = [shown for pages in crew.share(_write_part, parts) for shown in pages]
    note_written(index, written)
    for device, case in take_out_gone(index):
        for ending in ("html", "svg"):
            site.remove(f"{case_path(device, case)}.{ending}")
    return len(written)


@dataclass(frozen=True, kw_only=True)
class _Part:
    """The pages that one process writes: those that changed, by their numbers in the index."""

    site: Site
    state: Path
    first: int
    last: int


def _write_part(part: _Part) -> list[ShownPage]:
    written = []
    with open_index(part.state) as index:
        for page in read_pages(index, part.first, part.last):
            _put_case(part.site, page)
            written.append(_summarise(page))
    return written


def _summarise(page: CasePage) -> ShownPage:
    whole = page.first.whole if page.first else None
    return ShownPage(
        page=page.page,
        timings=sum(standing.whole.count for standing in page.standings),
        devices=whole.devices if whole else 0,
        metric=page.first.metric if page.first else "",
        median=whole.median if whole else None,
        apart=sum(row.count for row in page.apart),
    )


def _put_case(site: Site, page: CasePage) -> None:
    path, badge = case_path(page.device, page.case), _badge(page)
    site.put(f"{path}.svg", render_alone("board/badge.svg", badge=badge))
    site.put_page(
        f"{path}.html",
        "case.html",
        page=page,
        kernel=page.case.partition("/")[0],
        badge=f"{path.rpartition('/')[2]}.svg",
        badge_text=f"{badge.label}: {badge.value}",
        shown=[(standing, _draw_parts(standing)) for standing in page.standings],
        shares=SHARES,
        exports=[
            (row.timings, *name_export(row.file, row.made_at, row.key)) for row in page.exports
        ],
    )


@lru_cache(maxsize=5000)
def name_export(file: str, made_at: float, key: str) -> tuple[Markup, Markup]:
    """The cells of an export before and after its count, which many pages have."""
    named = Markup('<th scope="row" class="case">{}</th><td>{}</td>')
    signed = Markup('<span class="mono signed">{}</span>').format(key)
    vouched = signed if key else Markup('<span class="unsigned">unsigned</span>')
    return (
        named.format(cut(file), moment(made_at)),
        Markup('<td class="long">{}</td>').format(vouched),
    )


def _draw_parts(standing: Standing) -> dict[str, Markup]:
    """The rows of tables by driver, and by what else has several groups, on one scale."""
    parts = standing.parts
    scale = Scale.of([group for groups in parts.values() for group in groups])
    return {
        name: draw_groups(groups, standing.whole, scale)
        for name, groups in parts.items()
        if len(groups) > 1 or name == "driver"
    }


def _badge(page: CasePage) -> Badge:
    first = page.first
    label = page.case if len(page.case) <= _LABEL else f"{page.case[: _LABEL - 1]}…"
    if first is None:
        return Badge(label=label, value="no timing")
    return Badge(label=label, value=f"{seconds(first.whole.median)} {first.metric}")


def put_assets(site: Site) -> None:
    """Write the style sheet and the icon."""
    static = files("vkbench_web") / "static"
    sheets = ("style.css", "board.css")
    site.put("style.css", "\n".join((static / name).read_text() for name in sheets))
    site.put("icon.svg", (static / "icon.svg").read_text())
