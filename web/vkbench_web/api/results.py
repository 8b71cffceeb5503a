"""GET /api/results, /api/devices and /api/kernels."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from vkbench.words import names
from vkbench_db.ask import queries
from vkbench_db.ask import results as stored_results
from vkbench_db.ask.devices.lately import steadiness
from vkbench_tables import devices as of_devices
from vkbench_tables import kernels as of_kernels
from vkbench_tables.results import COLUMNS, rows_of, table
from vkbench_tables.table import Table
from vkbench_web.api.answers import KINDS, answer, responses
from vkbench_web.shell import lab_of

router = APIRouter(prefix="/api", tags=["read"])
MOST = 10_000
MOST_ID = 2**31 - 1

KIND = (
    "`csv` or `json` is the kind of answer; another value is a glob of storage formats, "
    "such as `q4_?`. Give it twice for both: `format=q4_?&format=csv`."
)


class ResultQuery(BaseModel):
    """Which results are asked for, in which order, and which page of them."""

    device: Annotated[
        list[str], Field(description="devices, as `--device` of the commands takes them")
    ] = []
    kernel: Annotated[list[str], Field(description="globs of kernels")] = []
    format: Annotated[list[str], Field(description=KIND)] = []
    case: Annotated[list[str], Field(description="globs of whole cases")] = []
    variant: Annotated[list[str], Field(description="globs of variants asked for")] = []
    program: Annotated[
        list[str], Field(description="globs of programs: what their builds computed")
    ] = []
    build: Annotated[
        list[str], Field(description="builds of programs, by name or hash; the latest of each")
    ] = []
    driver: Annotated[
        list[str], Field(description="drivers, by name, version or hash; the latest of each")
    ] = []
    mode: Annotated[list[str], Field(description="correctness, performance or paired")] = []
    state: Annotated[
        list[str], Field(description="how the jobs ended: passed, wrong, skipped, failed")
    ] = []
    run: Annotated[str, Field(description="number, label, UUID or `last`")] = ""
    series: Annotated[int | None, Field(ge=1, le=MOST_ID, description="a series' number")] = None
    sort: Annotated[str, Field(description="a column; a minus in front for the largest first")] = (
        "-finished_at"
    )
    limit: Annotated[int, Field(ge=1, le=MOST, description="rows at most")] = 100
    offset: Annotated[int, Field(ge=0, le=MOST_ID, description="rows to pass over")] = 0


@router.get("/results", responses=responses("Result", COLUMNS), response_class=Response)
def results(request: Request, query: Annotated[ResultQuery, Query()]) -> Response:
    """The latest result of each case, or all of a run or a series; a row a job."""
    kind, formats = kind_of(query.format)
    with lab_of(request).reading() as tx:
        run = queries.find_run(tx, query.run).id if query.run else None
        options = {name: getattr(query, name) for name in stored_results.FILTERS}
        chosen = stored_results.ResultFilter(**options | {"format": formats, "run": run})
        rows = stored_results.page(
            tx, chosen, sort=query.sort, limit=query.limit, offset=query.offset
        )
        made_of = stored_results.read_revisions_of(tx, rows)
    return answer(table(rows_of(rows, made_of)), kind)


@router.get("/devices", responses=responses("Device", of_devices.COLUMNS), response_class=Response)
def devices(
    request: Request,
    format: Annotated[str, Query(description="csv or json")] = "json",
) -> Response:
    """Every device, with its driver, its canary and what waits for it."""
    lab = lab_of(request)
    with lab.reading() as tx:
        steady = steadiness(tx)
        rows = [
            of_devices.device_row(row, steady.get(row.key), lab.now())
            for row in queries.devices(tx)
        ]
    return answer(Table(columns=of_devices.COLUMNS, rows=rows), format)


@router.get("/kernels", responses=responses("Kernel", of_kernels.COLUMNS), response_class=Response)
def kernels(
    kernel: Annotated[list[str], Query(description="globs of kernels, or a group")] = [],  # noqa: B006
    format: Annotated[list[str], Query(description=KIND)] = [],  # noqa: B006
) -> Response:
    """The catalogue: every kernel with its bindings, parameters and variants."""
    from vkbench_shaders.catalogue import KERNELS, matching
    from vkbench_shaders.formats import FORMATS

    kind, formats = kind_of(format)
    kernel_names = {name for glob in kernel or ["*"] for name in matching(glob)}
    every = [fmt.name for fmt in FORMATS]
    format_names = {
        name for glob in formats or ["*"] for name in names.matching(glob, every, "format")
    }
    rows = [
        of_kernels.kernel_row(entry)
        for entry in KERNELS
        if entry.name in kernel_names and format_names & set(entry.bindings[0].types)
    ]
    return answer(Table(columns=of_kernels.COLUMNS, rows=rows), kind)


def kind_of(words: list[str]) -> tuple[str, list[str]]:
    """The kind of answer, and the storage formats, that `format` names."""
    kinds = [word for word in words if word in KINDS]
    return kinds[-1] if kinds else "json", [word for word in words if word and word not in KINDS]
