"""The lists of a board: devices, the kernels of each, their cases, and all exports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from vkbench_db.batches import batches
from vkbench_detection.board.index import Index
from vkbench_web.board.names import case_path, file_name, list_path
from vkbench_web.board.site import Site

ROWS: Final = 300  # of a page
MOST_ROWS: Final = 1000  # devices, or kernels of one: pages that are not divided
_LIST: Final = re.compile(r"(index|exports)(-\d{1,6})?\.html")
_CLASSES: Final = """
SELECT class.id, class.name, count(*) AS cases, sum(timings), sum(apart), roofs <> '',
  (SELECT count(DISTINCT device.id) FROM device WHERE device.class = class.id)
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


@dataclass(frozen=True, kw_only=True)
class ClassRow:
    """A class of devices in the list of them."""

    name: str
    path: str
    devices: int
    cases: int
    timings: int
    apart: int
    is_calibrated: bool


@dataclass(kw_only=True)
class KernelRow:
    """A kernel in the list of a class."""

    name: str
    path: str
    cases: int = 0
    timings: int = 0
    apart: int = 0


@dataclass(frozen=True, kw_only=True)
class CaseRow:
    """A case in the list of a kernel."""

    name: str
    path: str
    metric: str
    median: float | None  # seconds
    timings: int
    devices: int
    apart: int


@dataclass(frozen=True, kw_only=True)
class ExportRow:
    """A run of a file, or a file that cannot be read, in the list of exports."""

    file: str
    made_at: float | None
    jobs: int
    timings: int
    key: str
    fault: str
    same_as: str


def write_lists(site: Site, index: Index) -> None:
    """Write all lists, and remove those of kernels and devices that are gone."""
    written = {"index.html", *_write_exports(site, index)}
    classes = []
    for number, name, cases, timings, apart, is_calibrated, devices in index.query(
        _CLASSES
    ).fetchall():
        written |= set(_write_class(site, index, number, name))
        classes.append(
            ClassRow(
                name=name,
                path=f"{file_name(name)}/index.html",
                devices=devices,
                cases=cases,
                timings=timings,
                apart=apart,
                is_calibrated=bool(is_calibrated),
            )
        )
    [[exports, signed]] = index.query("SELECT count(*), sum(key <> '') FROM section")
    values = {
        "exports": exports,
        "signed": signed or 0,
        "labs": sum(row.devices for row in classes),
    }
    _put_cut(site, "index.html", "index.html", classes, **values)
    for path in sorted(site.folder.glob("**/*.html")):
        place = path.relative_to(site.folder).as_posix()
        if _LIST.fullmatch(path.name) and place not in written:
            site.remove(place)


def _put_cut(site: Site, path: str, template: str, rows: Sequence[Any], **values: Any) -> None:
    """A list that is not divided into pages, with how many rows it leaves out."""
    more = max(0, len(rows) - MOST_ROWS)
    site.put_page(path, template, rows=rows[:MOST_ROWS], more=more, **values)


def _write_class(site: Site, index: Index, number: int, device: str) -> Iterator[str]:
    """Write the lists of a class; return where they lie."""
    kernels: dict[str, KernelRow] = {}
    cases: list[CaseRow] = []
    folder = file_name(device)
    for kernel, case, metric, median, timings, devices, apart in index.query(_CASES, (number,)):
        if kernel not in kernels:
            yield from _write_cases(site, device, next(reversed(kernels), ""), cases)
            cases = []
            path = f"{file_name(kernel)}/index.html"
            kernels[kernel] = KernelRow(name=kernel, path=path)
        row = kernels[kernel]
        row.cases, row.timings, row.apart = row.cases + 1, row.timings + timings, row.apart + apart
        path = f"{case_path(device, case).rpartition('/')[2]}.html"
        cases.append(
            CaseRow(
                name=case,
                path=path,
                metric=metric,
                median=median,
                timings=timings,
                devices=devices,
                apart=apart,
            )
        )
    yield from _write_cases(site, device, next(reversed(kernels), ""), cases)
    _put_cut(site, f"{folder}/index.html", "kernels.html", [*kernels.values()], device=device)
    yield f"{folder}/index.html"


def _write_cases(site: Site, device: str, kernel: str, rows: Sequence[CaseRow]) -> Iterator[str]:
    folder = f"{file_name(device)}/{file_name(kernel)}"
    numbers = -(-len(rows) // ROWS)
    for number, own in enumerate(batches(rows, ROWS), 1):
        path = list_path(f"{folder}/index", number)
        values = {"device": device, "kernel": kernel, "number": number, "numbers": numbers}
        site.put_page(path, "cases.html", rows=own, **values)
        yield path


def _write_exports(site: Site, index: Index) -> Iterator[str]:
    [[total]] = index.query(f"SELECT count(*) FROM ({_EXPORTS})")
    numbers = max(1, -(-total // ROWS))
    names = ("file", "made_at", "jobs", "timings", "key", "fault", "same_as")
    rows = (ExportRow(**dict(zip(names, row, strict=True))) for row in index.query(_EXPORTS))
    for number, own in enumerate([*batches(rows, ROWS)] or [[]], 1):
        path = list_path("exports", number)
        site.put_page(path, "exports.html", rows=own, number=number, numbers=numbers)
        yield path
