"""`vkbench results`: what was found, the latest of each case by default."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from vkbench import names
from vkbench.case import parse_shape
from vkbench.job import FINISHED, Mode
from vkbench_cli.options import Devices, Find, Formats, Kernels, Shapes, Store, Suite
from vkbench_cli.show.printing import Limit, Output, show, show_newest
from vkbench_cli.show.result_table import rows_of, table
from vkbench_cli.store import reading
from vkbench_scheduler.planning.selection import Selection

if TYPE_CHECKING:
    from vkbench_db.ask.queries import ResultRow
    from vkbench_db.database import Transaction

NOTHING_YET = "no results yet: `vkbench run` makes some"
METRICS = 2  # a job has as many rows in the database at most


def results(
    *,
    suite: Suite = "",
    kernel: Kernels = [],  # noqa: B006
    format: Formats = [],  # noqa: B006
    shape: Shapes = [],  # noqa: B006
    device: Devices = [],  # noqa: B006
    mode: Find = Mode.BOTH,
    state: Annotated[
        list[str],
        Option(
            metavar="STATE",
            help="Only results with this outcome, such as passed or wrong; may be repeated.",
        ),
    ] = [],  # noqa: B006
    run: Annotated[
        str,
        Option(metavar="RUN", help="Only results of this run: its number, label, UUID or 'last'."),
    ] = "",
    series: Annotated[
        int | None,
        Option(metavar="N", min=1, help="Only results of this series, its whole history."),
    ] = None,
    history: Annotated[
        bool, Option("--history", help="Show all results of each case, not only the latest.")
    ] = False,
    limit: Limit = None,
    store: Store,
    output: Output,
) -> None:
    """Show results, the latest of each case by default.

    The newest results come first.

    \b
    vkbench results --device '*' --kernel mul_mat_vec
    vkbench results --run last --state wrong
    vkbench results --series 12 --json
    """
    from vkbench_db.ask.blank import is_blank
    from vkbench_db.ask.queries import find_run

    sizes = [parse_shape(text) for text in shape]
    most = output.most(limit)
    with reading(store.settings()) as tx:
        if not run and is_blank(tx):
            show(replace(table([]), nothing=NOTHING_YET), output)
            return
        found = _asked(
            tx,
            kernel,
            format,
            run=find_run(tx, run).id if run else None,
            devices=device,
            modes=_modes(mode, run),
            states=[names.pick(asked, list(FINISHED), "state") for asked in state],
            latest=not (history or run or series),
            series=series,
            limit=most * METRICS + 1 if most and not (sizes or suite) else None,
        )
        works = _works_of(tx, suite, mode) if suite else None
    rows = rows_of(
        row
        for row in found
        if _has_shape(row, sizes) and (works is None or (row.case_name, row.mode) in works)
    )
    show_newest(table(rows), output, most)


def _modes(asked: Mode, run: str) -> list[Mode]:
    """What a run was for is shown; else pairs, which answer another question, when asked for."""
    if asked is Mode.BOTH:
        return [] if run else [Mode.CORRECTNESS, Mode.PERFORMANCE]
    return [asked]


def _asked(
    tx: Transaction, kernels: list[str], formats: list[str], **filters: Any
) -> list[ResultRow]:
    """Results of all kernels and formats asked for, newest first."""
    from vkbench_db.ask import queries

    found: list[ResultRow] = []
    for kernel, fmt in product(kernels or [""], formats or [""]):
        found += queries.results(tx, kernel=kernel, format=fmt, **filters)
    if len(kernels) > 1 or len(formats) > 1:  # globs may overlap
        unique = {(row.job, row.metric): row for row in found}
        found = sorted(unique.values(), key=lambda row: (-row.finished_at, -row.job))
    return found


def _works_of(tx: Transaction, suite: str, mode: Mode) -> set[tuple[str, str]]:
    """The cases of a suite with what it asks about each."""
    from vkbench_db.ask import queries
    from vkbench_scheduler.planning.plan import plan

    any_device = [row.facts for row in queries.devices(tx)][:1]
    return {(job.case, job.mode) for job in plan(Selection(suite=suite, mode=mode), any_device)}


def _has_shape(row: ResultRow, wanted: list[dict[str, int]]) -> bool:
    if not wanted:
        return True
    sizes = parse_shape(row.shape.replace("_", ","))
    return any(shape.items() <= sizes.items() for shape in wanted)
