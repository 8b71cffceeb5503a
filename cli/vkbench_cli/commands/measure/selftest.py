"""`vkbench selftest`: tests the regression detection on synthetic results."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from typer import Option, Typer

from vkbench.errors import EXIT_OK, EXIT_REGRESSION, UnknownName
from vkbench.words import names
from vkbench_cli.commands.measure.selftest_comparisons import comparisons
from vkbench_cli.groups import CommandGroup
from vkbench_cli.options.spreading import spread
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.progress import CountedProgress
from vkbench_cli.show.selftest import COLUMNS, rows_of_lab, rows_of_noise
from vkbench_cli.show.telling import tell
from vkbench_tables.table import Cell, Table

if TYPE_CHECKING:
    from vkbench_local.selftest.scenarios import Scenario

STREAMS = 400
SERIES = 48
NOISE, LAB = "noise", "lab"  # the parts of the self-test

app = Typer(cls=CommandGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True)
app.command()(comparisons)


@app.callback()
def group() -> None:
    """Test the regression detection on synthetic results."""


@app.command()
@spread
def detector(
    *,
    only: Annotated[
        list[str] | None,
        Option(
            "--only",
            metavar="PART",
            help="Run this part alone: noise, lab, or a scenario of the lab; repeatable.",
        ),
    ] = None,
    streams: Annotated[
        int,
        Option(
            "--streams", min=1, metavar="N", help="Synthetic series for each noise and each change."
        ),
    ] = STREAMS,
    series: Annotated[
        int,
        Option("--series", min=1, metavar="N", help="Simulated series for each scenario."),
    ] = SERIES,
    seed: Annotated[
        int, Option("--seed", min=0, metavar="N", help="Seed of the random numbers.")
    ] = 0,
    output: Output,
) -> int:
    """Run the regression detection on synthetic noise and in a simulated lab.

    Noise, with and without changes: for each kind without a change, the rows show false alarms,
    ambiguous suspicions and jobs spent on confirming, per 1000 results. For each planted change,
    slower and faster, they show in how many series it is confirmed within 1, 3, 10 and 20 results,
    and the median delay. A series without a change has 250 results.

    Rows "history" test the pass over whole series, which decides alone where nothing can be
    measured again: false changes per 1000 results, how many of them blame a kernel that changed
    there, and in how many series a planted change is found as certain or as ambiguous.

    The lab: the scheduler's own steps place, screen, measure again, cut and group the results of
    each night in a database. For each scenario, a row shows in how many cases people are told of a
    planted change with its cause, and with the bundle or driver that brought it; whether its
    regression ends open, or over, as it should; how often the interval of its size covers the true
    one; the median of the nights until it is told; false changes per 1000 results, and those that
    a kernel or driver is blamed for; and paired jobs per 100 results.

    Exit code 1 if a target is missed. Fewer series than the default are quicker and less certain.
    """
    began = time.monotonic()
    parts = only or [NOISE, LAB]
    scenarios = _scenarios(parts)
    noise_rows = _try_noise(streams, seed) if NOISE in parts else []
    lab_rows = _try_lab(scenarios, series, seed) if scenarios else []
    if output.json or output.csv:
        show(Table(columns=COLUMNS, rows=[*noise_rows, *lab_rows]), output)
    else:
        for rows in filter(None, (noise_rows, lab_rows)):
            show(Table(columns=COLUMNS, rows=rows), output)
    verdicts = [row["verdict"] for row in (*noise_rows, *lab_rows) if row["verdict"]]
    met, seconds = verdicts.count("PASS"), time.monotonic() - began
    tell(f"{met} of {len(verdicts)} targets met, in {seconds:.0f} s")
    return EXIT_OK if met == len(verdicts) else EXIT_REGRESSION


def _try_noise(streams: int, seed: int) -> list[dict[str, Cell]]:
    from vkbench_detection.statistics.selftest import run
    from vkbench_detection.statistics.synthetic import KINDS

    with CountedProgress("detector", len(KINDS)) as progress:
        return rows_of_noise(run(streams=streams, seed=seed, report=progress.tell))


def _scenarios(parts: Sequence[str]) -> list[Scenario]:
    """The scenarios of the parts that --only names; UnknownName for an unknown part."""
    from vkbench_local.selftest.scenarios import BY_NAME

    known = (NOISE, LAB, *BY_NAME)
    for part in parts:
        if part not in known:
            raise UnknownName("part of the self-test", part, names.nearest(part, known))
    return [scenario for name, scenario in BY_NAME.items() if LAB in parts or name in parts]


def _try_lab(scenarios: Sequence[Scenario], series: int, seed: int) -> list[dict[str, Cell]]:
    """Try the scenarios in the lab, half of the series with a second seed."""
    from vkbench_local.selftest.score import TARGETS
    from vkbench_local.selftest.trial import run

    tell(f"targets of the lab, which a scenario misses beyond chance: {', '.join(TARGETS)}")
    with CountedProgress("lab", len(scenarios)) as progress:
        seeds = (seed, seed + 1)
        rows = run(scenarios, series=(series + 1) // 2, seeds=seeds, tell_done=progress.count)
    return rows_of_lab(rows)
