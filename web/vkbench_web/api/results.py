"""GET /api/results, /api/devices and /api/kernels."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from vkbench.words import names
from vkbench_db.ask import queries, result_pages
from vkbench_db.ask.canary_status import steadiness
from vkbench_tables import devices as of_devices
from vkbench_tables import kernels as of_kernels
from vkbench_tables.results import COLUMNS, rows_of, table
from vkbench_tables.table import Table
from vkbench_web.api.answers import KINDS, answer, responses
from vkbench_web.shell import lab_of

router = APIRouter(prefix="/api", tags=["read"])
MOST = 10_000
MOST_ID = 2**31 - 1

Kind = Annotated[
    list[str],
    Query(
        alias="format",
        description=(
            "`csv` or `json` is the kind of answer; another value is a glob of storage formats, "
            "such as `q4_?`. Give it twice for both: `format=q4_?&format=csv`."
        ),
    ),
]


@router.get("/results", responses=responses("Result", COLUMNS), response_class=Response)
def results(
    request: Request,
    device: Annotated[
        list[str], Query(description="devices, as `--device` of the commands takes them")
    ] = [],  # noqa: B006
    kernel: Annotated[list[str], Query(description="globs of kernels")] = [],  # noqa: B006
    format: Kind = [],  # noqa: B006
    case: Annotated[list[str], Query(description="globs of whole cases")] = [],  # noqa: B006
    variant: Annotated[list[str], Query(description="globs of variants asked for")] = [],  # noqa: B006
    mode: Annotated[list[str], Query(description="correctness, performance or paired")] = [],  # noqa: B006
    state: Annotated[
        list[str], Query(description="how the jobs ended: passed, wrong, skipped, failed")
    ] = [],  # noqa: B006
    run: Annotated[str, Query(description="number, label, UUID or `last`")] = "",
    series: Annotated[int | None, Query(ge=1, le=MOST_ID, description="a series' number")] = None,
    sort: Annotated[
        str, Query(description="a column; a minus in front for the largest first")
    ] = "-finished_at",
    limit: Annotated[int, Query(ge=1, le=MOST, description="rows at most")] = 100,
    offset: Annotated[int, Query(ge=0, le=MOST_ID, description="rows to pass over")] = 0,
) -> Response:
    """The latest result of each case, or all of a run or a series; a row a job."""
    kind, formats = kind_of(format)
    with lab_of(request).reading() as tx:
        result_filter = result_pages.ResultFilter(
            device=device,
            kernel=kernel,
            format=formats,
            case=case,
            variant=variant,
            mode=mode,
            state=state,
            run=queries.find_run(tx, run).id if run else None,
            series=series,
        )
        rows = result_pages.page(tx, result_filter, sort=sort, limit=limit, offset=offset)
    return answer(table(rows_of(rows)), kind)


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
    format: Kind = [],  # noqa: B006
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
