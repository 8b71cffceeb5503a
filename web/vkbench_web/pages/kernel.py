"""/kernels/NAME: a kernel's source, bindings, parameters, variants, cases, and how it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from vkbench.case import is_own, program_of
from vkbench.errors import UnknownName, UsageError
from vkbench.job import FINISHED
from vkbench.words import names
from vkbench_db.ask import queries
from vkbench_db.ask.latest_results import RooflinePoint, kernel_states, roofline_points
from vkbench_db.ask.queries import DeviceRow
from vkbench_db.database import Transaction
from vkbench_detection.regress import inbox
from vkbench_detection.regress.stages import TO_DO
from vkbench_web.pages.kernels import tallies
from vkbench_web.pages.roofline import picture, point_row, read_calibrations
from vkbench_web.scatter import Scatter
from vkbench_web.shell import lab_of, page

if TYPE_CHECKING:
    from vkbench_scheduler.own_kernels import DeclaredKernel
    from vkbench_shaders.kernel import Kernel, Variant

router = APIRouter()
MOST_CASES = 60  # listed; the page of results has them all
LEAST_BYTES = 1024  # that a timing moves, or memory does not limit it
MOST_DRAWN = 8  # devices with a picture of their own


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file of Slang that variants begin in."""

    module: str
    path: str  # in the shader tree
    lines: Sequence[str]
    imports: Sequence[str]  # paths of further files


@router.get("/kernels/{name}", include_in_schema=False)
def kernel(request: Request, name: str) -> Response:
    """The page of a kernel."""
    from vkbench_shaders.catalogue import kernel_named

    if request.query_params:
        raise UsageError("a kernel's page has no options")
    if program_of(name):  # of another program: its results are all there is
        return RedirectResponse(f"/results?kernel={quote(name)}")
    with lab_of(request).reading() as tx:
        declared = _find_own_kernel(tx, name) if is_own(name) else None
        shown = declared.kernel if declared else kernel_named(name)
        states = tallies(kernel_states(tx, shown.name)).get(shown.name, {})
        devices = [device for device in queries.devices(tx) if device.key in states]
        is_timed, pictures = _pictures(tx, shown.name, devices)
        regressions = inbox.regressions(tx, states=TO_DO, kernel=shown.name)
        planted = lab_of(request).stories(tx)
    return page(
        request,
        "kernel.html",
        kernel=shown,
        formats=shown.bindings[0].types,
        cases=shown.cases[:MOST_CASES],
        timed={case.name for case in shown.timed},
        more=max(0, len(shown.cases) - MOST_CASES),
        devices=devices,
        states=states,
        ends=[state for state in FINISHED if any(state in counts for counts in states.values())],
        pictures=pictures,
        is_timed=is_timed,
        regressions=regressions,
        planted=planted,
        declared=declared,
        sources=() if declared else _sources(shown.name),
        stages=_stages,
    )


def _find_own_kernel(tx: Transaction, name: str) -> DeclaredKernel:
    """A kernel of a user, by its newest bundle; UnknownName with the nearest names."""
    from vkbench_scheduler.own_kernels import own_kernels

    if declared := own_kernels(tx, name):
        return declared[0]
    raise UnknownName("kernel", name, names.nearest(name, _own_names(tx)))


def _own_names(tx: Transaction) -> list[str]:
    from vkbench_scheduler.own_kernels import own_kernels

    return [declared.own.name for declared in own_kernels(tx)]


def _pictures(
    tx: Transaction, name: str, devices: Sequence[DeviceRow]
) -> tuple[bool, list[tuple[DeviceRow, Scatter]]]:
    """Whether it was timed, and a roofline of each device; by bandwidth if it has no operations.

    Timings that compute nothing and move a few bytes have none: they say what a launch costs.
    """
    points: dict[str, list[RooflinePoint]] = {}
    for point in roofline_points(tx, kernel=name):
        points.setdefault(point.device, []).append(point)
    reached = read_calibrations(tx, list(points)) if points else {}
    pictures = []
    for device in devices[:MOST_DRAWN]:
        device_points = points.get(device.key, [])
        if not any(point.flops or point.bytes_moved >= LEAST_BYTES for point in device_points):
            continue
        height = "flops" if any(point.flops for point in device_points) else "bytes"
        drawn = picture(
            [point_row(point) for point in device_points], reached.get(device.key), height
        )
        if drawn:
            pictures.append((device, drawn))
    return bool(points), pictures


def _stages(variant: Variant) -> str:
    """The entry points of a variant, and their modules."""
    return ", ".join(f"{stage.entry} in {stage.module}" for stage in variant.stages)


@cache
def _sources(name: str) -> Sequence[Source]:
    """The files that a kernel's variants begin in, without those that they import."""
    from vkbench_shaders.catalogue import kernel_named
    from vkbench_shaders.compile.tree import TREE, source_of, sources_of

    sources = []
    for module in _modules(kernel_named(name)):
        try:
            path = source_of(module, TREE)
        except UsageError as error:
            raise UnknownName("module", module) from error
        imported = [
            imported_path.relative_to(TREE).as_posix()
            for imported_path in sources_of(path, TREE)
            if imported_path != path
        ]
        sources.append(
            Source(
                module=module,
                path=path.relative_to(TREE).as_posix(),
                lines=path.read_text().splitlines(),
                imports=imported,
            )
        )
    return tuple(sources)


def _modules(kernel: Kernel) -> Mapping[str, None]:
    return dict.fromkeys(stage.module for variant in kernel.variants for stage in variant.stages)
