"""/results: the latest result of each case, or all of a run or a series, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from vkbench.errors import UnknownName, UsageError
from vkbench.words import names
from vkbench_db.ask import queries
from vkbench_db.ask import results as stored_results
from vkbench_db.ask.results import FILTERS, SORTS, ResultFilter
from vkbench_db.database import Transaction
from vkbench_tables.results import rows_of, table
from vkbench_web.addresses import build_url, program_url
from vkbench_web.api.results import MOST_ID, kind_of
from vkbench_web.listing import FORMATS, PAGE_ROWS, Link, Paged, Row, ShownColumn, page_number
from vkbench_web.shell import lab_of, page

router = APIRouter()
NOTHING_YET = "no results yet: `vkbench run` makes some"
NOTHING_FITS = "no result fits these filters"
_OPTIONS = ("sort", "page", "format")


@dataclass(frozen=True, kw_only=True)
class Results(Paged):
    """A page of results; `format` names storage formats here, and with csv or json a file."""

    kind: str = ""  # of the file that the URL asks for

    @property
    def columns(self) -> list[ShownColumn]:
        """What the page shows; not every column can be sorted by."""
        return [
            column if column.key in SORTS else replace(column, sort_url="")
            for column in super().columns
        ]

    def url(self, **changes: object) -> str:
        """This table's URL with other options."""
        kind = changes.pop("format", "")
        base = super().url(**changes)
        more = urlencode({"format": kind}) if kind else ""
        return f"{base}{'&' if '?' in base else '?'}{more}" if more else base

    def download(self) -> Response | None:
        """The table as a file, where the URL asks for one."""
        whole = replace(self, query={**self.query, "format": self.kind})
        return super(Results, whole).download()


@router.get("/results", include_in_schema=False)
def results(request: Request) -> Response:
    """The page that lists results."""
    with lab_of(request).reading() as tx:
        listing = read_page(tx, request)
        answer = listing.download()
        if answer:
            return answer
        choices = stored_results.choices(tx)
        devices = queries.devices(tx)
    chosen = {name: listing.query.get(name, "") for name in (*FILTERS, "sort")}
    return page(
        request, "results.html", results=listing, chosen=chosen, choices=choices, devices=devices
    )


def read_page(tx: Transaction, request: Request) -> Results:
    """The page of results that a URL asks for; all that fit where it asks for a file."""
    query = _read_options(request)
    kind, formats = kind_of(request.query_params.getlist("format"))
    is_file = any(word in FORMATS for word in request.query_params.getlist("format"))
    result_filter = filter_of(tx, request, [word for text in formats for word in _words(text)])
    total = stored_results.count(tx, result_filter)
    number = min(page_number(query.get("page", "1")), max(1, -(-total // PAGE_ROWS)))
    rows = stored_results.page(
        tx,
        result_filter,
        sort=query.get("sort", "-finished_at"),
        limit=None if is_file else PAGE_ROWS,
        offset=0 if is_file else (number - 1) * PAGE_ROWS,
    )
    made_of = stored_results.read_revisions_of(tx, rows)
    shown = table(rows_of(rows, made_of))
    is_filtered = any(getattr(result_filter, name) not in ((), [], None) for name in FILTERS)
    return Results(
        name="results",
        table=replace(shown, nothing=NOTHING_FITS if is_filtered else NOTHING_YET),
        total=total,
        page=number,
        path=request.url.path,
        query=query | ({"format": ",".join(formats)} if formats else {}),
        links=_LINKS,
        kind=kind if is_file else "",
    )


def filter_of(tx: Transaction, request: Request, formats: Sequence[str]) -> ResultFilter:
    """The filter that a URL's options make; several values have commas, or repeat the option."""
    params = request.query_params

    def several(name: str) -> list[str]:
        return [word for text in params.getlist(name) for word in _words(text)]

    return ResultFilter(
        device=several("device"),
        kernel=several("kernel"),
        format=formats,
        case=[text for text in params.getlist("case") if text],  # names of cases have commas
        variant=several("variant"),
        program=several("program"),
        build=several("build"),
        driver=several("driver"),
        mode=several("mode"),
        state=several("state"),
        run=queries.find_run(tx, params["run"]).id if params.get("run") else None,
        series=_number("series", params["series"]) if params.get("series") else None,
    )


def _read_options(request: Request) -> dict[str, str]:
    """The options of a URL without the kind of file; UnknownName for an unknown one."""
    query: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name not in (*FILTERS, *_OPTIONS, "part"):
            known = [*FILTERS, *_OPTIONS]
            raise UnknownName("option", name, names.nearest(name, known))
        if value and name not in ("part", "format"):
            query[name] = f"{query[name]},{value}" if name in query else value
    return query


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _number(name: str, text: str) -> int:
    is_short = text.isascii() and text.isdecimal() and len(text) <= len(str(MOST_ID))
    if not (is_short and 0 < int(text) <= MOST_ID):
        raise UsageError(f"{name} is a number from 1")
    return int(text)


def _job(row: Row) -> str:
    return f"/jobs/{row['job']}"


def _kernel(row: Row) -> str:
    return f"/kernels/{row['kernel']}"


def _build(row: Row) -> str | None:
    return build_url(str(row["bundle"])) if row["build"] else None


def _heat_map(row: Row) -> str:
    return f"/heatmap?device={row['device']}"


def _history(metric: str) -> Link:
    def link(row: Row) -> str | None:
        series = row[f"{metric}_series"]
        return f"/series/{series}" if series else None

    return link


_LINKS = {
    "case": _job,
    "verdict": _job,
    "variant": lambda row: program_url(str(row["variant"])) if row["build"] else _kernel(row),
    "build": _build,
    "device_name": _heat_map,
    "device": _heat_map,
    "hot_seconds": _history("hot"),
    "cold_seconds": _history("cold"),
}
