"""/query: SQL that can only read the documented views, which stand beside it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from vkbench.errors import VkbenchError
from vkbench_db.ask.sql.public import MOST_ROWS, MOST_SECONDS
from vkbench_db.ask.sql.view_columns import MEANINGS, VIEWS, strip_markdown
from vkbench_tables.table import Table
from vkbench_web.asking import run_query
from vkbench_web.faults import status_of
from vkbench_web.listing import Link, Row, list_table
from vkbench_web.shell import lab_of, page

router = APIRouter()
EXAMPLES = (
    (
        "The latest results of a kernel",
        "SELECT device_name, case_name, metric, seconds, gb_per_second, roof_fraction\n"
        "FROM v_latest WHERE kernel = 'mul_mat_vec' AND state = 'passed'\n"
        "ORDER BY gb_per_second DESC LIMIT 100",
    ),
    (
        "Verdicts by kernel",
        "SELECT kernel, state, count(DISTINCT job) AS jobs\n"
        "FROM v_latest GROUP BY kernel, state ORDER BY kernel, state",
    ),
    (
        "The noisiest series",
        "SELECT series, device_name, case_name, metric, sigma, smallest_effect\n"
        "FROM v_series WHERE sigma IS NOT NULL ORDER BY sigma DESC LIMIT 50",
    ),
    (
        "Open regressions by what they cost",
        "SELECT regression, title, count(*) AS series, max(ratio) AS worst\n"
        "FROM v_regressions WHERE state = 'open' AND direction <> 'faster'\n"
        "GROUP BY regression, title ORDER BY worst DESC",
    ),
    (
        "The share of the roof by format",
        "SELECT device_name, format, max(roof_fraction) AS best, avg(roof_fraction) AS mean\n"
        "FROM v_latest WHERE metric = 'hot' AND roof_fraction IS NOT NULL\n"
        "GROUP BY device_name, format ORDER BY device_name, best DESC",
    ),
)


@router.get("/query", include_in_schema=False)
def query(request: Request) -> Response:
    """The answer to the statement in the URL, or the form alone."""
    sql = request.query_params.get("sql", "").strip()
    values: dict[str, Any] = {
        "sql": sql,
        "error": "",
        "examples": EXAMPLES,
        "views": VIEWS,
        "meanings": {
            view: {name: strip_markdown(meaning) for name, meaning in columns.items()}
            for view, columns in MEANINGS.items()
        },
        "most_rows": MOST_ROWS,
        "most_seconds": MOST_SECONDS,
    }
    if not sql:
        return page(request, "query.html", **values)
    try:
        table = run_query(lab_of(request), sql)
        rows = list_table(request, table, name="query", links=_links(table), own=("sql",))
    except VkbenchError as error:
        return page(request, "query.html", status_of(error), **values | {"error": str(error)})
    return rows.download() or page(request, "query.html", rows=rows, **values)


def _links(table: Table) -> dict[str, Link]:
    """Links from numbers of jobs, runs, series and regressions to their pages."""
    keys = {column.key for column in table.columns}
    pages = {"job": "jobs", "run": "runs", "series": "series", "regression": "regressions"}
    return {key: _link(key, path) for key, path in pages.items() if key in keys}


def _link(key: str, path: str) -> Link:
    def link(row: Row) -> str | None:
        number = row.get(key)
        return f"/{path}/{number}" if isinstance(number, int) else None

    return link
