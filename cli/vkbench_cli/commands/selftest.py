"""`vkbench selftest`: does what this program claims about itself hold?"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

from typer import Option, Typer

from vkbench.errors import EXIT_OK, EXIT_REGRESSION
from vkbench_cli.options import Output, spread
from vkbench_cli.printing import Cell, Column, Kind, Table, show
from vkbench_cli.progress import Progress

if TYPE_CHECKING:
    from vkbench_db.statistics.selftest import Found, Quiet, Report

STREAMS = 400
WITHIN = (1, 3, 10, 20)  # results

app = Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)

COLUMNS = (
    Column(key="noise", heading="noise of a job"),
    Column(key="change", heading="change", kind=Kind.PERCENT),
    Column(key="direction", heading=""),
    Column(key="false_per_1000", heading="false/1000", kind=Kind.VALUE),
    Column(key="ambiguous_per_1000", heading="ambiguous/1000", kind=Kind.VALUE),
    Column(key="jobs_per_1000", heading="extra jobs/1000", kind=Kind.COUNT),
    *(Column(key=f"found_{n}", heading=f"found @{n}", kind=Kind.PERCENT) for n in WITHIN),
    Column(key="delay", heading="delay", kind=Kind.COUNT),
    Column(key="target", heading="target"),
    Column(key="verdict", heading=""),
    Column(key="count", heading="results, or streams", hidden=True),
)


@app.callback()
def group() -> None:
    """Try what this program claims about itself."""


@app.command()
@spread
def detector(
    *,
    streams: Annotated[
        int, Option("--streams", min=1, help="Streams of each noise, and of each change in it.")
    ] = STREAMS,
    seed: Annotated[int, Option("--seed", min=0, help="Of all noise.")] = 0,
    output: Output,
) -> int:
    """Run the detection of regressions on synthetic noise, with and without changes.

    Of each noise: confirmed false alarms, suspicions left ambiguous and jobs spent on confirming,
    per 1000 results in which nothing changes; then of each change in it, slower and faster, in how
    many streams it is confirmed within 1, 3, 10 and 20 results, and after how many of them mostly.

    Ends with 1 if a target is missed. A stream without a change has 250 results; fewer streams than
    the default are quicker, and chance decides more.
    """
    from vkbench_db.statistics.selftest import run
    from vkbench_db.statistics.synthetic import KINDS

    began = time.monotonic()
    with Progress(len(KINDS), "detector") as progress:
        report = run(streams=streams, seed=seed, told=progress.update)
    show(Table(columns=COLUMNS, rows=_rows(report)), output)
    met, all_targets = sum(report.verdicts), len(report.verdicts)
    seconds = time.monotonic() - began
    print(f"{met} of {all_targets} targets met, in {seconds:.0f} s", file=sys.stderr)
    return EXIT_OK if met == all_targets else EXIT_REGRESSION


def _rows(report: Report) -> list[dict[str, Cell]]:
    """Each noise with the changes in it."""
    rows = []
    for quiet in report.quiet:
        rows.append(_quiet(quiet))
        rows += [_found(found) for found in report.found if found.noise == quiet.noise]
    return rows


def _quiet(quiet: Quiet) -> dict[str, Cell]:
    from vkbench_db.statistics.selftest import FALSE_PER_1000

    return {
        "noise": quiet.noise,
        "false_per_1000": quiet.per_1000(quiet.confirmed),
        "ambiguous_per_1000": quiet.per_1000(quiet.ambiguous),
        "jobs_per_1000": quiet.per_1000(quiet.jobs),
        "target": "" if quiet.is_met is None else f"false ≤ {FALSE_PER_1000}/1000",
        "verdict": _verdict(quiet.is_met),
        "count": quiet.results,
    }


def _found(found: Found) -> dict[str, Cell]:
    wanted = found.wanted
    return {
        "noise": found.noise,
        "change": found.change,
        "direction": found.direction,
        **{f"found_{n}": found.recall(n) for n in WITHIN},
        "delay": found.delay,
        "target": f"@{wanted.within} ≥ {wanted.recall:.0%}" if wanted else "",
        "verdict": _verdict(found.is_met),
        "count": len(found.delays),
    }


def _verdict(is_met: bool | None) -> str:
    return "" if is_met is None else "PASS" if is_met else "FAIL"
