"""What the pages and lists of a board say, as its index has it: classes, cases, exports, faults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Final

from vkbench_detection.board.index import Index

_CLASSES: Final = """
SELECT class.id, class.name, (SELECT count(*) FROM device WHERE device.class = class.id),
  count(*) AS cases, sum(timings), sum(apart), roofs <> ''
FROM shown JOIN page ON page.id = shown.page JOIN class ON class.id = page.class
GROUP BY class.id ORDER BY cases DESC, class.name
"""
_CASES: Final = """
SELECT substr(case_name, 1, instr(case_name, '/') - 1) AS kernel, case_name, metric, median,
  timings, devices, apart
FROM shown JOIN page ON page.id = shown.page WHERE page.class = ? ORDER BY kernel, case_name
"""
_EXPORTS: Final = """
SELECT file.name, made_at, coalesce(jobs, 0), coalesce(timings, 0), coalesce(key, ''), fault,
  coalesce(same_as, '')
FROM file LEFT JOIN section ON section.file = file.id ORDER BY file.name, section.id
"""
_TWICE: Final = """
SELECT DISTINCT file.name, same_as FROM section JOIN file ON file.id = section.file
WHERE hidden ORDER BY file.name
"""
_GONE: Final = """
SELECT class.name, page.case_name
FROM dirty JOIN page ON page.id = dirty.page JOIN class ON class.id = page.class
"""


@dataclass(frozen=True)
class ShownPage:
    """What lists say of the page of a case."""

    page: int
    timings: int
    devices: int
    metric: str
    median: float | None  # seconds
    apart: int  # timings that cannot be compared


@dataclass(frozen=True)
class ClassRow:
    """A class of devices in the list of them."""

    number: int
    name: str
    devices: int
    cases: int
    timings: int
    apart: int
    is_calibrated: int


@dataclass(frozen=True)
class CaseRow:
    """A case in the list of a kernel."""

    kernel: str
    name: str
    metric: str
    median: float | None  # seconds
    timings: int
    devices: int
    apart: int


@dataclass(frozen=True)
class ExportRow:
    """A run of a file, or a file that cannot be read, in the list of exports."""

    file: str
    made_at: float | None
    jobs: int
    timings: int
    key: str
    fault: str
    same_as: str


def list_classes(index: Index) -> list[ClassRow]:
    """All classes of devices that have a page, those with the most cases first."""
    return [ClassRow(*row) for row in index.query(_CLASSES)]


def list_cases(index: Index, number: int) -> Iterator[CaseRow]:
    """The cases of a class, kernel by kernel."""
    return (CaseRow(*row) for row in index.query(_CASES, (number,)))


def list_exports(index: Index) -> Iterator[ExportRow]:
    """All runs of all files, and the files that cannot be read."""
    return (ExportRow(*row) for row in index.query(_EXPORTS))


def count_export_rows(index: Index) -> int:
    """How many rows the list of exports has."""
    [[total]] = index.query(f"SELECT count(*) FROM ({_EXPORTS})")
    return int(total)


def count_runs(index: Index) -> tuple[int, int]:
    """How many runs all exports have, and how many of them are signed."""
    [[runs, signed]] = index.query("SELECT count(*), coalesce(sum(key <> ''), 0) FROM section")
    return int(runs), int(signed)


def list_faults(index: Index) -> list[tuple[str, str]]:
    """The files that cannot be read, each with the reason."""
    return list(index.query("SELECT name, fault FROM file WHERE fault <> ''"))


def list_repeats(index: Index) -> list[tuple[str, str]]:
    """The files whose run counts as that of another one, which is named beside it."""
    return list(index.query(_TWICE))


def renew_all_pages(index: Index) -> None:
    """Have every page written by the next build."""
    index.write("INSERT OR IGNORE INTO dirty SELECT id FROM page", [()])


def list_dirty(index: Index) -> list[int]:
    """The numbers of the pages that are to be written, in their order."""
    return [page for (page,) in index.query("SELECT page FROM dirty ORDER BY page")]


def note_written(index: Index, pages: Sequence[ShownPage]) -> None:
    """Store what lists say of pages that were written."""
    index.write("INSERT OR REPLACE INTO shown VALUES (?, ?, ?, ?, ?, ?)", map(astuple, pages))
    index.write("DELETE FROM dirty WHERE page = ?", [(shown.page,) for shown in pages])


def take_out_gone(index: Index) -> list[tuple[str, str]]:
    """The classes and cases of which no timing is left, whose pages are listed no more.

    After all others are written, these are what is left to write.
    """
    gone = list(index.query(_GONE))
    index.write("DELETE FROM shown WHERE page IN (SELECT page FROM dirty)", [()])
    index.write("DELETE FROM dirty", [()])
    return gone
