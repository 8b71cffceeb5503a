"""GET /api/programs and /api/builds: programs, their builds, and what came with each."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from vkbench.words import names
from vkbench_db.ask import builds as of_builds
from vkbench_tables.builds import (
    BUILDS,
    CAME,
    FILES,
    ON_DEVICES,
    PROGRAMS,
    build_row,
    change_rows,
    file_rows,
    on_device_row,
)
from vkbench_tables.table import Table
from vkbench_web.api.answers import (
    answer,
    answer_with,
    describe_answer,
    records,
    responses,
    row_model,
)
from vkbench_web.shell import lab_of

router = APIRouter(prefix="/api", tags=["read"])
File = row_model("BuildFile", FILES)
OnDevice = row_model("BuildOnDevice", ON_DEVICES)
Came = row_model("BuildChange", CAME)


@router.get("/programs", responses=responses("Program", PROGRAMS), response_class=Response)
def programs(request: Request) -> Response:
    """The programs that have builds, with the newest build of each."""
    with lab_of(request).reading() as tx:
        rows = [asdict(row) for row in of_builds.programs(tx)]
    return answer(Table(columns=PROGRAMS, rows=rows))


@router.get("/builds", responses=responses("Build", BUILDS), response_class=Response)
def builds(
    request: Request,
    program: Annotated[str, Query(description="only builds of this program")] = "",
) -> Response:
    """The builds of programs, in the order of their adding."""
    with lab_of(request).reading() as tx:
        known = [row.program for row in of_builds.programs(tx)]
        if program:
            program = names.pick(program, known, "program")
        rows = [build_row(row) for row in of_builds.builds(tx, program)]
    return answer(Table(columns=BUILDS, rows=rows))


@router.get(
    "/builds/{build}",
    responses=describe_answer(
        "OneBuild",
        rows=row_model("BuildFacts", BUILDS),
        files=(list[File], "its files"),  # type: ignore[valid-type]
        devices=(list[OnDevice], "how its cases ended on each device"),  # type: ignore[valid-type]
        changes=(list[Came], "what changed with it, the gravest first"),  # type: ignore[valid-type]
    ),
    response_class=Response,
)
def one_build(
    request: Request,
    build: Annotated[str, Path(description="its name, its hash or the beginning of it")],
) -> Response:
    """A build: its files, its results on each device, and what changed with it."""
    with lab_of(request).reading() as tx:
        row = of_builds.build(tx, build)
        known = of_builds.builds(tx, row.program)
        on_devices = of_builds.builds_on_devices(tx, [stored.sha for stored in known], {row.sha})
        came = of_builds.builds_changes(tx, [row.sha])
    by_sha = {stored.sha: stored for stored in known}
    called = {stored.sha: stored.name for stored in known}
    return answer_with(
        Table(columns=BUILDS, rows=[build_row(row)]),
        files=records(FILES, file_rows(row)),
        devices=records(ON_DEVICES, [on_device_row(device, by_sha) for device in on_devices]),
        changes=records(CAME, change_rows(came, called)),
    )
