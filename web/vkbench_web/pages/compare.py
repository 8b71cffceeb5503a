"""/compare: two runs, bundles, drivers, devices, days or baselines side by side."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from vkbench.errors import UsageError, VkbenchError
from vkbench_db.database import Transaction
from vkbench_tables.comparisons import comparison_words
from vkbench_tables.table import Cell, Column, Table
from vkbench_tables.written import text
from vkbench_web.comparing import Compared, bars, compare_words, reach_of, ticks
from vkbench_web.faults import status_of
from vkbench_web.listing import Link, Row, list_table
from vkbench_web.shell import lab_of, page

router = APIRouter()
OPTIONS = ("old", "new", "all", "metric")
NOTHING_CHANGED = "no timing changed significantly, and no verdict did"


@router.get("/compare", include_in_schema=False)
def compare(request: Request) -> Response:
    """The comparison that the URL asks for, or the form alone."""
    from vkbench_detection.compare.candidates import candidates
    from vkbench_detection.compare.suggestions import suggestions

    options = {name: request.query_params.get(name, "").strip() for name in OPTIONS}
    lab = lab_of(request)
    with lab.reading() as tx:
        offered = candidates(tx)
        if not (options["old"] and options["new"]):
            shown = {"options": options, "offered": offered, "suggested": suggestions(tx)}
            return page(request, "compare.html", 200, error="", **shown)
        try:
            answer = _read_compared(tx, options)
        except VkbenchError as error:
            again = {"options": options, "offered": offered, "suggested": suggestions(tx)}
            return page(request, "compare.html", status_of(error), error=str(error), **again)
    return _answer(request, options, answer, offered)


def _read_compared(tx: Transaction, options: Mapping[str, str]) -> Compared:
    if options["all"] not in ("", "0", "1"):
        raise UsageError("all is 1 (every timing) or 0 (changed ones)")
    return compare_words(
        tx,
        options["old"],
        options["new"],
        metrics=[options["metric"]],
        unchanged=options["all"] == "1",
    )


def _answer(
    request: Request, options: Mapping[str, str], answer: Compared, offered: object
) -> Response:
    shared = _shared_columns(answer.table)
    columns = [column for column in answer.table.columns if column.key not in shared]
    links = {
        "case": _series,
        "old_seconds": _job("old"),
        "new_seconds": _job("new"),
        "new_verdict": _job("new"),
    }
    table = Table(
        columns=columns if not request.query_params.get("format") else answer.table.columns,
        rows=answer.table.rows,
        summary=answer.table.summary,
        nothing=NOTHING_CHANGED,
    )
    listing = list_table(request, table, name="comparison", links=links, own=OPTIONS)
    if download := listing.download():
        return download
    reach = reach_of(listing.rows)
    means = _means(answer)
    return page(
        request,
        "compare.html",
        options=options,
        offered=offered,
        error="",
        comparison=answer.comparison,
        rows=listing,
        shared=[
            (c.heading, text.text(c, answer.table.rows[0])) for c in _lift_columns(answer, shared)
        ],
        bars=bars(listing.rows, reach),
        ticks=ticks(reach),
        means=means,
        mean_bars=bars(means),
        mean_ticks=ticks(reach_of(means)),
        summary=comparison_words.summary(answer.comparison),
        share_lines=[
            line for line in comparison_words.device_lines(answer.comparison) if "shares" in line
        ],
        drifts=answer.drifts,
    )


def _shared_columns(table: Table) -> set[str]:
    """Columns that are the same in all rows: said once above them."""
    return {
        column.key
        for column in table.columns
        if column.lifted and not column.hidden and text.is_shared(column, table.rows)
    }


def _lift_columns(answer: Compared, shared: set[str]) -> list[Column]:
    return [column for column in answer.table.columns if column.key in shared]


def _means(answer: Compared) -> list[dict[str, Cell]]:
    """The geometric mean of all, and of each device where there are several."""
    comparison = answer.comparison
    named = [("all timings", comparison.mean)]
    named += [(f"{name} ({key})", mean) for (key, name), mean in comparison.device_means.items()]
    named += [("all devices alike", comparison.fleet_mean)] if comparison.fleet_mean else []
    return [
        {
            "name": name,
            "ratio": mean.value,
            "ratio_low": mean.low,
            "ratio_high": mean.high,
            "count": mean.count,
            "change": _word(mean.low, mean.high),
            "why": mean.why,
        }
        for name, mean in named
        if mean
    ]


def _word(low: float | None, high: float | None) -> str:
    if low is not None and low > 1:
        return "slower"
    return "faster" if high is not None and high < 1 else "~"


def _series(row: Row) -> str | None:
    number = row.get("new_series") or row.get("old_series")
    return f"/series/{number}" if number else None


def _job(side: str) -> Link:
    def link(row: Row) -> str | None:
        number = row.get(f"{side}_job")
        return f"/jobs/{number}" if number else None

    return link
