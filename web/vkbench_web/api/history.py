"""GET /api/runs, /api/jobs and /api/series: what ran, and how it went over time."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from vkbench.errors import UnknownName
from vkbench.job import JobState
from vkbench.words import names
from vkbench_db.ask import queries
from vkbench_db.ask import series as of_series
from vkbench_db.ask import timings as of_samples
from vkbench_db.ask.results import read_revisions_of, results_of
from vkbench_tables.results import COLUMNS, SAMPLES, rows_of
from vkbench_tables.runs import JOBS, RUNS, job_row, run_row
from vkbench_tables.series import CHANGES, POINTS, SERIES
from vkbench_tables.table import Table
from vkbench_web.api.answers import answer_with, describe_answer, record, responses, row_model
from vkbench_web.pages.one_series import histories, point_rows
from vkbench_web.shell import lab_of

router = APIRouter(prefix="/api", tags=["read"])
MOST = 10_000
MOST_ID = 2**31 - 1

Number = Annotated[int, Path(ge=1, le=MOST_ID)]
Limit = Annotated[int, Query(ge=1, le=MOST, description="rows at most")]
Globs = Annotated[list[str], Field(description="globs, one of which has to fit")]
Range = Annotated[str, Field(description="`0.02`, `>0.02`, `<0.02` or `0.01..0.02`")]

Run = row_model("Run", RUNS)
Result = row_model("JobResult", COLUMNS)
Series = row_model("Series", SERIES)
Change = row_model("Change", CHANGES)


@router.get("/runs", responses=responses("RunOf", RUNS), response_class=Response)
def runs(request: Request, limit: Limit = 100) -> Response:
    """Runs, the newest first, with how many of their jobs are in which state."""
    with lab_of(request).reading() as tx:
        rows = [run_row(row) for row in queries.runs(tx, limit=limit)]
    return answer_with(Table(columns=RUNS, rows=rows))


@router.get(
    "/runs/{run}",
    responses=describe_answer("RunJobs", rows=row_model("Job", JOBS), run=(Run, "the run")),
    response_class=Response,
)
def one_run(
    request: Request,
    run: Annotated[str, Path(description="its number, label, UUID or its beginning, or `last`")],
    state: Annotated[list[str], Query(description="only jobs in these states")] = [],  # noqa: B006
    limit: Limit = 1000,
) -> Response:
    """A run and its jobs, in their order."""
    states = [names.pick(word, list(JobState), "state") for word in state]
    with lab_of(request).reading() as tx:
        run_found = queries.find_run(tx, run)
        rows = [
            job_row(row) for row in queries.jobs(tx, run=run_found.id, states=states, limit=limit)
        ]
    return answer_with(Table(columns=JOBS, rows=rows), run=record(RUNS, run_row(run_found)))


@router.get(
    "/jobs/{number}",
    responses=describe_answer(
        "JobAnswer",
        rows=row_model("OneJob", JOBS),
        result=(Result | None, "what it found; null until it has finished"),
    ),
    response_class=Response,
)
def one_job(request: Request, number: Number) -> Response:
    """A job: where it stands, and its result once it has finished."""
    with lab_of(request).reading() as tx:
        job_rows = queries.jobs(tx, number=number)
        stored = results_of(tx, [number])
        results = rows_of(stored, read_revisions_of(tx, stored))
    if not job_rows:
        raise UnknownName("job", str(number))
    table = Table(columns=JOBS, rows=[job_row(row) for row in job_rows])
    return answer_with(table, result=record(COLUMNS, results[0]) if results else None)


@router.get(
    "/jobs/{number}/samples", responses=responses("Samples", SAMPLES), response_class=Response
)
def samples(request: Request, number: Number) -> Response:
    """Every sample behind the timings of a job, in the order in which they were taken."""
    with lab_of(request).reading() as tx:
        if not queries.jobs(tx, number=number):
            raise UnknownName("job", str(number))
        rows = [asdict(sample) for sample in of_samples.samples(tx, number)]
    return answer_with(Table(columns=SAMPLES, rows=rows))


class SeriesQuery(BaseModel):
    """Which series are asked for, in which order, and which page of them."""

    q: Annotated[str, Field(description="words, each of which is in some text of the series")] = ""
    host: Globs = []
    device: Globs = []
    device_name: Globs = []
    case_name: Globs = []
    kernel: Globs = []
    format: Globs = []
    variant: Globs = []
    metric: Globs = []
    track: Globs = []
    sigma: Range = ""
    smallest_effect: Range = ""
    sort: Annotated[str, Field(description="a column; a minus in front for the largest first")] = ""
    limit: Annotated[int, Field(ge=1, le=MOST, description="rows at most")] = 100
    offset: Annotated[int, Field(ge=0, le=MOST_ID, description="rows to pass over")] = 0

    def as_filter(self) -> of_series.SeriesFilter:
        """The series that fit, as the database is asked for them."""
        from vkbench_web.listing import bounds

        options = {name: value for name, value in vars(self).items() if value}
        return of_series.SeriesFilter(
            texts={name: globs for name, globs in options.items() if name in of_series.TEXTS},
            ranges={
                name: bounds(text) for name, text in options.items() if name in of_series.NUMBERS
            },
            words=self.q.split()[:10],
        )


@router.get(
    "/series",
    responses=describe_answer(
        "SeriesList", rows=Series, total=(int, "how many series fit, on all pages")
    ),
    response_class=Response,
)
def series(request: Request, query: Annotated[SeriesQuery, Query()]) -> Response:
    """Series of timings: one metric of one case by one code path of one device."""
    chosen, known = query.as_filter(), [column.key for column in SERIES]
    key = names.pick(query.sort.removeprefix("-"), known, "column") if query.sort else ""
    with lab_of(request).reading() as tx:
        rows = of_series.page(
            tx,
            chosen,
            sort=key,
            descending=query.sort.startswith("-"),
            limit=query.limit,
            offset=query.offset,
        )
        total = of_series.count(tx, chosen)
    return answer_with(Table(columns=SERIES, rows=[asdict(row) for row in rows]), total=total)


@router.get(
    "/series/{number}",
    responses=describe_answer(
        "History",
        rows=row_model("Point", POINTS),
        series=(Series, "the series"),
        changes=(list[Change], "its change points, the newest first"),  # type: ignore[valid-type]
    ),
    response_class=Response,
)
def one_series(
    request: Request,
    number: Number,
    last: Annotated[int, Query(ge=1, le=MOST, description="results at most, the newest")] = 2000,
) -> Response:
    """The results of a series, the oldest first, with what moved at each."""
    with lab_of(request).reading() as tx:
        [history] = histories(tx, [number], last)
    more: dict[str, Any] = {
        "series": record(SERIES, asdict(history.row)),
        "changes": [record(CHANGES, asdict(change)) for change in history.changes],
    }
    return answer_with(Table(columns=POINTS, rows=point_rows(history)), **more)
