"""/programs, /programs/NAME and /builds/HASH: programs, and what came with each of their builds."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from vkbench.errors import UnknownName
from vkbench.programs.build import SHA_SHOWN, find_word, name_build
from vkbench.words import names
from vkbench_db.ask import builds as of_builds
from vkbench_db.ask.builds import BuildChange, BuildOnDevice, BuildRow
from vkbench_tables.builds import (
    CAME,
    FILES,
    ON_DEVICES,
    PROGRAMS,
    change_rows,
    file_rows,
    on_device_row,
)
from vkbench_tables.table import Table
from vkbench_web.addresses import build_url, program_url
from vkbench_web.listing import Link, Listing, Row, list_table, page_number
from vkbench_web.shell import lab_of, page

router = APIRouter()
BUILDS_A_PAGE = 20
OLDER = "older"  # option: which page of builds, 1 for the newest
NO_BUILD = "no build is known: `vkbench program build add` keeps one, `vkbench run --build` runs it"
NO_RESULT = "no device has results of it: `vkbench run --build` makes some"
NO_FILE = "known by its name alone, from imported results: pairs cannot confirm its changes"
NO_CHANGE = "nothing became slower, faster, wrong or failed with it, as far as is known"


@router.get("/programs", include_in_schema=False)
def programs(request: Request) -> Response:
    """The programs whose builds are under test."""
    with lab_of(request).reading() as tx:
        rows = [asdict(row) for row in of_builds.programs(tx)]
    named = [{**row, "newest": name_build(row["newest"], row["newest_sha"])} for row in rows]
    links: Mapping[str, Link] = {
        "program": lambda row: program_url(str(row["program"])),
        "newest": lambda row: build_url(str(row["newest_sha"])),
    }
    table = Table(columns=PROGRAMS, rows=named, nothing=NO_BUILD)
    listing = list_table(request, table, name="programs", links=links)
    return listing.download() or page(request, "programs.html", programs=listing)


@router.get("/programs/{program}", include_in_schema=False)
def program(request: Request, program: str) -> Response:
    """A program's builds, the newest first, and what came with each on each device."""
    number = page_number(request.query_params.get(OLDER) or "1")
    with lab_of(request).reading() as tx:
        known = of_builds.builds(tx, program)
        if not known:
            near = names.nearest(program, [row.program for row in of_builds.programs(tx)])
            raise UnknownName("program", program, near)
        pages = -(-len(known) // BUILDS_A_PAGE)
        number = min(number, pages)
        last = len(known) - (number - 1) * BUILDS_A_PAGE
        shown = {row.sha for row in known[max(0, last - BUILDS_A_PAGE) : last]}
        rows = of_builds.builds_on_devices(tx, [row.sha for row in known], shown)
    table = _list_on_devices(rows, known)
    listing = list_table(request, table, name=program, links=_ON_DEVICES, own=(OLDER,))
    idle = [row for row in known if row.sha in shown - {row.sha for row in rows}]
    return listing.download() or page(
        request,
        "program.html",
        program=program,
        builds=listing,
        idle=idle,
        count=len(known),
        number=number,
        pages=pages,
        bisect=_bisect_builds(known),
    )


@router.get("/builds/{word}", include_in_schema=False)
def build(request: Request, word: str) -> Response:
    """A build: its files, its results, and what changed against the one before."""
    with lab_of(request).reading() as tx:
        shown = of_builds.build(tx, word)
        known = of_builds.builds(tx, shown.program)
        ordered = [row.sha for row in known]
        rows = of_builds.builds_on_devices(tx, ordered, {shown.sha})
        came = of_builds.builds_changes(tx, [shown.sha])
    named = {row.sha: row.name for row in known}
    devices = _list_on_devices(rows, known)
    devices = replace(
        devices, columns=[c for c in ON_DEVICES if c.key not in ("build", "added_at")]
    )
    place = ordered.index(shown.sha)
    changes = Table(columns=CAME, rows=change_rows(came, named), nothing=NO_CHANGE)
    files = Table(columns=FILES, rows=file_rows(shown), nothing=NO_FILE)
    listing = list_table(request, changes, name=f"build-{shown.sha[:SHA_SHOWN]}", links=_CHANGES)
    return listing.download() or page(
        request,
        "build.html",
        build=shown,
        before=known[place - 1] if place else None,
        after=known[place + 1] if place + 1 < len(known) else None,
        devices=_list_whole(request, devices, "devices", _ON_DEVICES),
        files=_list_whole(request, files, "files", {}),
        changes=listing,
        run=""
        if shown.is_name_alone
        else f"vkbench run --build {shlex.quote(find_word(shown.name, shown.sha))}",
        bisect="" if shown.is_name_alone else _bisect_change(came, ordered),
        compare=_compare,
    )


def _list_on_devices(rows: Sequence[BuildOnDevice], known: Sequence[BuildRow]) -> Table:
    """A row for each build and device, the newest build first."""
    by_sha = {row.sha: row for row in known}
    cells = [on_device_row(row, by_sha) for row in rows]
    for row in cells:
        row.update({name: row[name] or None for name in _COUNTS})  # zeros would hide the others
    places = {row.sha: place for place, row in enumerate(known)}
    cells.sort(key=lambda row: -places[str(row["sha"])])
    return Table(columns=ON_DEVICES, rows=cells, nothing=NO_RESULT)


_COUNTS = (
    *("wrong", "failed", "imported", "slower", "faster", "became_wrong", "became_failed"),
    "uncertain",
)


def _list_whole(request: Request, table: Table, name: str, links: Mapping[str, Link]) -> Listing:
    return Listing(
        name=name, table=table, total=len(table.rows), page=1, path=request.url.path,
        query={}, links=links,
    )  # fmt: skip


def _bisect_builds(known: Sequence[BuildRow]) -> str:
    """The command that finds the first bad one of the newest builds."""
    able = [row for row in known if not row.is_name_alone]
    words = [find_word(row.name, row.sha) for row in able[-8:]]
    if len(words) < 2:
        return ""
    return f"vkbench bisect --builds {shlex.quote(','.join(words))} --case NAME"


def _bisect_change(came: Sequence[BuildChange], ordered: Sequence[str]) -> str:
    """The command that looks for the first bad build between both of the gravest change."""
    for change in came:
        if change.direction == "faster" or change.before_bundle not in ordered:
            continue
        if change.regression:
            return f"vkbench bisect --regression {change.regression}"
        first, last = (ordered.index(sha) for sha in (change.before_bundle, change.sha))
        builds = ",".join(sha[:SHA_SHOWN] for sha in ordered[first : last + 1])
        return shlex.join(["vkbench", "bisect", "--builds", builds, "--case", change.case_name])
    return ""


def _compare(old: str, new: str) -> str:
    """The page that holds a build against another."""
    sides = {"old": f"build:{old[:SHA_SHOWN]}", "new": f"build:{new[:SHA_SHOWN]}"}
    return f"/compare?{urlencode(sides)}"


def _find_results(row: Row, **more: str) -> str:
    query = {"build": str(row["sha"])[:SHA_SHOWN], "device": str(row["device"]), **more}
    return f"/results?{urlencode(query)}"


def _find_comparison(row: Row) -> str | None:
    old = row["against_sha"]
    return _compare(str(old), str(row["sha"])) if old else None


_ON_DEVICES: Mapping[str, Link] = {
    "build": lambda row: build_url(str(row["sha"])),
    "device_name": lambda row: f"/heatmap?device={row['device']}",
    "results": _find_results,
    "wrong": lambda row: _find_results(row, state="wrong"),
    "failed": lambda row: _find_results(row, state="failed"),
    "against": _find_comparison,
    **{
        name: lambda row: build_url(str(row["sha"]))
        for name in ("slower", "faster", "became_wrong", "became_failed", "uncertain")
    },
}
_CHANGES: Mapping[str, Link] = {
    "case_name": lambda row: f"/series/{row['series']}",
    "change": lambda row: f"/jobs/{row['after_job']}",
    "against": lambda row: build_url(str(row["before_bundle"])),
    "regression": lambda row: f"/regressions/{row['regression']}",
}
