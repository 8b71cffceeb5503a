"""The lists of a board: devices, the kernels of each, their cases, and all exports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from vkbench_db.batches import batches
from vkbench_detection.board.contents import (
    CaseRow,
    ClassRow,
    count_export_rows,
    count_runs,
    list_cases,
    list_classes,
    list_exports,
)
from vkbench_detection.board.index import Index
from vkbench_web.board.names import case_path, file_name, list_path
from vkbench_web.board.site import Site

ROWS: Final = 300  # of a page
MOST_ROWS: Final = 1000  # devices, or kernels of one: pages that are not divided
_LIST: Final = re.compile(r"(index|exports)(-\d{1,6})?\.html")


@dataclass(kw_only=True)
class KernelRow:
    """A kernel in the list of a class."""

    name: str
    cases: int = 0
    timings: int = 0
    apart: int = 0


def write_lists(site: Site, index: Index) -> None:
    """Write all lists, and remove those of kernels and devices that are gone."""
    written = {"index.html", *_write_exports(site, index)}
    classes = list_classes(index)
    for row in classes:
        written |= set(_write_class(site, index, row))
    runs, signed = count_runs(index)
    values = {"exports": runs, "signed": signed, "labs": sum(row.devices for row in classes)}
    linked = [(row, f"{file_name(row.name)}/index.html") for row in classes]
    _put_cut(site, "index.html", "index.html", linked, **values)
    for path in sorted(site.folder.glob("**/*.html")):
        place = path.relative_to(site.folder).as_posix()
        if _LIST.fullmatch(path.name) and place not in written:
            site.remove(place)


def _put_cut(site: Site, path: str, template: str, rows: Sequence[Any], **values: Any) -> None:
    """A list that is not divided into pages, with how many rows it leaves out."""
    more = max(0, len(rows) - MOST_ROWS)
    site.put_page(path, template, rows=rows[:MOST_ROWS], more=more, **values)


def _write_class(site: Site, index: Index, row: ClassRow) -> Iterator[str]:
    """Write the lists of a class; return where they lie."""
    kernels: list[KernelRow] = []
    for name, cases in groupby(list_cases(index, row.number), key=lambda case: case.kernel):
        kernel = KernelRow(name=name)
        yield from _write_cases(site, row.name, kernel, list(cases))
        kernels.append(kernel)
    path = f"{file_name(row.name)}/index.html"
    linked = [(kernel, f"{file_name(kernel.name)}/index.html") for kernel in kernels]
    _put_cut(site, path, "kernels.html", linked, device=row.name)
    yield path


def _write_cases(
    site: Site, device: str, kernel: KernelRow, rows: Sequence[CaseRow]
) -> Iterator[str]:
    """Write the list of a kernel's cases, and sum them up."""
    kernel.cases = len(rows)
    kernel.timings = sum(row.timings for row in rows)
    kernel.apart = sum(row.apart for row in rows)
    folder = f"{file_name(device)}/{file_name(kernel.name)}"
    numbers = -(-len(rows) // ROWS)
    for number, own in enumerate(batches(rows, ROWS), 1):
        path = list_path(f"{folder}/index", number)
        values = {"device": device, "kernel": kernel.name, "number": number, "numbers": numbers}
        linked = [(row, f"{case_path(device, row.name).rpartition('/')[2]}.html") for row in own]
        site.put_page(path, "cases.html", rows=linked, **values)
        yield path


def _write_exports(site: Site, index: Index) -> Iterator[str]:
    numbers = max(1, -(-count_export_rows(index) // ROWS))
    for number, own in enumerate([*batches(list_exports(index), ROWS)] or [[]], 1):
        path = list_path("exports", number)
        site.put_page(path, "exports.html", rows=own, number=number, numbers=numbers)
        yield path
