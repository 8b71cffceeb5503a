"""/runs: the runs, the newest first; /runs/N: how one goes, and its jobs or what was lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from vkbench.errors import UsageError
from vkbench.job import OPEN, SEVERITY, JobState, Mode
from vkbench_db.ask import queries, run_story
from vkbench_db.ask.accuracies import accuracies
from vkbench_db.ask.run_story import Share
from vkbench_db.database import Transaction
from vkbench_db.upkeep.attendance import attendance
from vkbench_db.upkeep.tokens import Scope
from vkbench_db.work.progress import Progress
from vkbench_tables.absence import absence
from vkbench_tables.losses import KEPT_COLUMNS, kept_row
from vkbench_tables.runs import JOBS, RUNS, job_row, run_row
from vkbench_tables.table import Table
from vkbench_web.access.texts import MOST_INTEGER, Form, Number
from vkbench_web.access.triage import cancel
from vkbench_web.access.visitor import writing_form
from vkbench_web.listing import Row, list_table
from vkbench_web.shell import lab_of, page

router = APIRouter()
MOST = 200  # runs of a page; counting the jobs of a thousand large ones takes 0.3 s
MOST_JOBS = 5000  # that a page of a run looks at; downloads hold all
NOTHING_YET = "no run yet: `vkbench run` makes one here, `vkbench submit` one of the fleet"
NO_JOBS = "this run has no jobs"


@router.get("/runs", include_in_schema=False)
def runs(request: Request) -> Response:
    """The page that lists runs."""
    before = request.query_params.get("before", "")
    with lab_of(request).reading() as tx:
        run_rows = queries.runs(tx, limit=MOST, before=number(before) if before else None)
    progress = {row.id: row.progress for row in run_rows}
    table = Table(columns=RUNS, rows=[run_row(row) for row in run_rows], nothing=NOTHING_YET)
    shown = list_table(
        request, table, name="runs", links={"id": _run, "label": _run}, own=("before",)
    )
    return shown.download() or page(
        request,
        "runs.html",
        runs=shown,
        going=_going(progress),
        older=run_rows[-1].id if len(run_rows) == MOST else None,
    )


@router.get("/runs/{run}", include_in_schema=False)
def run_page(request: Request, run: Number) -> Response:
    """The page of one run."""
    lab = lab_of(request)
    params = request.query_params
    with lab.reading() as tx:
        row = queries.find_run(tx, str(run))
        shares = run_story.shares(tx, run, lab.now())
        failures = run_story.failures(tx, run)
        lost = accuracies(tx, run=run) if row.mode == Mode.ACCURACY else []
        before = run_story.run_before(tx, run)
        waits = "" if row.imported else _waits(tx, row.progress, run, lab.now())
        jobs = queries.jobs(
            tx,
            run=run,
            states=[JobState(params["state"])] if params.get("state") in tuple(JobState) else (),
            limit=0
            if params.get("part") == "live"
            else None
            if params.get("format")
            else MOST_JOBS,
        )
    columns = [replace(column, hidden=column.hidden or column.key == "run") for column in JOBS]
    table = Table(columns=columns, rows=[job_row(job) for job in jobs], nothing=NO_JOBS)
    if row.mode == Mode.ACCURACY:
        table = Table(columns=KEPT_COLUMNS, rows=[kept_row(accuracy) for accuracy in lost])
    shown = list_table(
        request,
        table,
        name=f"run-{run}",
        links={"id": _job, "case": _job},
    )
    return shown.download() or page(
        request,
        "run.html",
        run=row,
        state=run_row(row)["state"],
        bar=bar(row.progress.counts),
        shares=shares,
        failures=failures,
        left=seconds_left(shares),
        rate=sum(share.per_second or 0 for share in shares),
        before=before,
        waits=waits,
        selection=describe_selection(row.selection),
        jobs=shown,
        cut=len(jobs) == MOST_JOBS < row.progress.total,
        may_cancel=not row.imported and any(row.progress.counts.get(state) for state in OPEN),
    )


@router.post("/runs/{run}/cancel", include_in_schema=False)
def cancel_run(request: Request, run: Number, form: Form) -> Response:
    """Cancel its unfinished jobs."""
    with writing_form(request, form, Scope.SUBMIT, f"cancel {run}") as (tx, _):
        cancel(tx, run, lab_of(request).now())
    return RedirectResponse(f"/runs/{run}", 303)


def number(text: str) -> int:
    """The number of a run; UsageError for anything else."""
    if not (text.isascii() and text.isdecimal() and int(text[:10]) <= MOST_INTEGER):
        raise UsageError("before is the number of a run")
    return int(text[:10])


def bar(counts: Mapping[JobState, int]) -> list[tuple[str, float, float]]:
    """The parts of a progress bar: state, where it begins and how wide it is, in percent."""
    total = sum(counts.values())
    parts: list[tuple[str, float, float]] = []
    begin = 0.0
    for state in dict.fromkeys((*SEVERITY, *JobState)):
        if count := counts.get(state, 0):
            parts.append((state.value, begin, 100 * count / total))
            begin += 100 * count / total
    return parts


def seconds_left(shares: Sequence[Share]) -> float | None:
    """Seconds until the slowest device is done; None while a device with work has no rate."""
    working = [share for share in shares if not share.is_finished]
    left = [share.seconds_left for share in working]
    known = [seconds for seconds in left if seconds is not None]
    return max(known) if known and len(known) == len(left) else None


def describe_selection(selection: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The options that a selection sets, as names and values."""
    return [
        pair
        for name, value in selection.items()
        if value not in (None, "", [], {}, 0)
        for pair in _describe_option(name.replace("_", " "), value)
    ]


def _describe_option(name: str, value: Any) -> Iterator[tuple[str, str]]:
    match value:
        case {"source": {"path": path, "tensor": tensor}, **more}:
            yield name, f"tensor {tensor} of {path}" if tensor else path
            if cases := more.get("cases"):
                yield f"cases of the {name}", _words(cases)
        case {"kernel": kernel, "cases": cases}:  # a user's own
            yield "own kernel", kernel
            yield "its cases", _words(cases)
        case _:
            yield name, _words(value)


def _words(value: object) -> str:
    match value:
        case list() | tuple():
            return ", ".join(_words(item) for item in value)
        case dict():
            return ",".join(f"{key}={_words(item)}" for key, item in value.items())
    return str(value)


def _going(progress: Mapping[int, Progress]) -> Mapping[int, list[tuple[str, float, float]]]:
    """The bars of runs, by their numbers."""
    return {run: bar(of_run.counts) for run, of_run in progress.items()}


def _waits(tx: Transaction, progress: Progress, run: int, now: float) -> str:
    if progress.is_finished:
        return ""
    return absence(attendance(tx, run=run), now)


def _run(row: Row) -> str:
    return f"/runs/{row['id']}"


def _job(row: Row) -> str:
    return f"/jobs/{row['id']}"
