"""GET /api/compare, /api/regressions and /api/query: what results say."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import ConfigDict, create_model
from starlette.requests import Request
from starlette.responses import Response

from vkbench.words import names
from vkbench_db.ask.sql.public import MOST_ROWS
from vkbench_tables.comparisons import comparison
from vkbench_tables.regressions import DIRECTIONS, ROWS, STATES, STORY, story_row
from vkbench_tables.table import Table
from vkbench_web.api.answers import answer, answer_with, describe_answer, responses, row_model
from vkbench_web.api.history import MOST_ID, Limit
from vkbench_web.asking import run_query
from vkbench_web.comparing import compare_words
from vkbench_web.shell import lab_of

router = APIRouter(prefix="/api", tags=["read"])
SIDE = (
    "a run (its number, label, UUID or `last`), the name of a baseline, `bundle:SHA`, "
    "`build:NAME`, `driver:VERSION`, `device:SELECTOR` or `date:2026-11-01`"
)
TOLD = tuple(column for column in STORY if column.key != "alerts")
AnyRow = create_model("AnyRow", __config__=ConfigDict(extra="allow"))


@router.get(
    "/compare",
    responses=describe_answer(
        "Comparison",
        rows=row_model("Compared", comparison.COLUMNS),
        summary=(
            dict[str, Any],
            "the counts and means of all timings, of each device, of canaries",
        ),
    ),
    response_class=Response,
)
def compare(
    request: Request,
    old: Annotated[str, Query(min_length=1, description=f"what to compare with: {SIDE}")],
    new: Annotated[str, Query(min_length=1, description="what to compare, in the same words")],
    metric: Annotated[list[str], Query(description="hot or cold; both if none is named")] = [],  # noqa: B006
    all: Annotated[bool, Query(description="timings without a significant change too")] = False,
) -> Response:
    """Two sets of results side by side: changed verdicts, then slower timings, then faster ones."""
    with lab_of(request).reading() as tx:
        compared = compare_words(tx, old, new, metrics=metric, unchanged=all)
    return answer_with(compared.table, summary=compared.table.summary or {})


@router.get("/regressions", responses=responses("RegressionOf", ROWS), response_class=Response)
def regressions(
    request: Request,
    state: Annotated[list[str], Query(description=f"of {', '.join(STATES)}")] = [],  # noqa: B006
    direction: Annotated[list[str], Query(description=f"of {', '.join(DIRECTIONS)}")] = [],  # noqa: B006
    device: Annotated[
        list[str], Query(description="devices, as `--device` of the commands takes them")
    ] = [],  # noqa: B006
    program: Annotated[
        list[str], Query(description="globs of programs: what their builds show")
    ] = [],  # noqa: B006
    limit: Limit = 100,
) -> Response:
    """Regressions and improvements, the newest first."""
    from vkbench_detection.regress import inbox

    with lab_of(request).reading() as tx:
        rows = inbox.regressions(
            tx,
            states=[names.pick(word, STATES, "state") for word in state],
            directions=[names.pick(word, DIRECTIONS, "direction") for word in direction],
            devices=device,
            programs=program,
            limit=limit,
        )
    return answer(Table(columns=ROWS, rows=[asdict(row) for row in rows]))


@router.get(
    "/regressions/{regression}", responses=responses("Regression", TOLD), response_class=Response
)
def one_regression(
    request: Request, regression: Annotated[int, Path(ge=1, le=MOST_ID)]
) -> Response:
    """A regression with its changes and its history, as one row."""
    from vkbench_detection.regress import inbox

    with lab_of(request).reading() as tx:
        row = story_row(inbox.story(tx, regression))
    return answer_with(Table(columns=TOLD, rows=[row]))


@router.get(
    "/query",
    responses=describe_answer("Answer", rows=AnyRow),
    response_class=Response,
)
def query(
    request: Request,
    sql: Annotated[str, Query(min_length=1, description="one SELECT of the public views")],
    limit: Annotated[int, Query(ge=1, le=MOST_ROWS, description="more rows are refused")] = 1000,
    format: Annotated[str, Query(description="json or csv")] = "json",
) -> Response:
    """Rows of the public views, by the names that the statement gives its columns."""
    return answer(run_query(lab_of(request), sql, limit), format)
