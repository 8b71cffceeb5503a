"""/series: every series, a page at a time, chosen and sorted by the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from vkbench.errors import UnknownName, UsageError
from vkbench.words import names
from vkbench_db.ask import series as ask
from vkbench_db.database import Transaction
from vkbench_tables.series import SERIES
from vkbench_tables.table import Table
from vkbench_web.listing import PAGE_ROWS, Paged, Row, alternatives, asked_of, bounds, page_number
from vkbench_web.shell import lab_of, page

router = APIRouter()
NOTHING_YET = "no series yet: each timing of `vkbench run` joins one"
OWN = {"number_format": "format"}  # `format` asks for a file
NOTHING_FITS = "no series fits these filters"


@router.get("/series", include_in_schema=False)
def every(request: Request) -> Response:
    """The page that lists series."""
    with lab_of(request).reading() as tx:
        listing = read_page(tx, request)
    return listing.download() or page(request, "series.html", series=listing)


def read_page(tx: Transaction, request: Request) -> Paged:
    """The page of series that a URL asks for; all that fit where it asks for a file."""
    columns = {column.key: column for column in SERIES}
    query = asked_of(request, columns, tuple(OWN))
    series_filter, sort = filter_of(query), query.get("sort", "")
    if sort and sort.removeprefix("-") not in columns:
        raise UnknownName("column", sort, names.nearest(sort, list(columns)))
    total = ask.count(tx, series_filter)
    last = max(1, -(-total // PAGE_ROWS))
    number = min(page_number(query.get("page", "1")), last)
    is_file = bool(query.get("format"))
    rows = ask.page(
        tx,
        series_filter,
        sort=sort.removeprefix("-"),
        descending=sort.startswith("-"),
        limit=None if is_file else PAGE_ROWS,
        offset=0 if is_file else (number - 1) * PAGE_ROWS,
    )
    is_filtered = bool(series_filter.texts or series_filter.ranges or series_filter.words)
    return Paged(
        name="series",
        table=Table(
            columns=SERIES,
            rows=[asdict(row) for row in rows],
            nothing=NOTHING_FITS if is_filtered else NOTHING_YET,
        ),
        total=total,
        page=number,
        path=request.url.path,
        query=query,
        links={"series": _series, "case_name": _series},
        offered={} if is_file else ask.choices(tx),
    )


def filter_of(query: Mapping[str, str]) -> ask.SeriesFilter:
    """What the options of a URL choose."""
    options = {
        OWN.get(name, name): value
        for name, value in query.items()
        if name not in ("q", "sort", "page", "format")
    }
    for name in options:
        if name not in (*ask.TEXTS, *ask.NUMBERS):
            raise UsageError(f"series cannot be filtered by {name}: sort by it instead")
    return ask.SeriesFilter(
        texts={name: alternatives(value) for name, value in options.items() if name in ask.TEXTS},
        ranges={name: bounds(value) for name, value in options.items() if name in ask.NUMBERS},
        words=query.get("q", "").split()[:10],
    )


def _series(row: Row) -> str:
    return f"/series/{row['series']}"
