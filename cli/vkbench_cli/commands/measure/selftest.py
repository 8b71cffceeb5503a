"""`vkbench selftest`: tests the regression detection on synthetic results."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from typer import Option, Typer

from vkbench.errors import EXIT_OK, EXIT_REGRESSION
from vkbench_cli.commands.measure.selftest_comparisons import comparisons
from vkbench_cli.groups import CommandGroup
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.progress import CountedProgress
from vkbench_cli.show.telling import tell
from vkbench_cli.spreading import spread
from vkbench_tables.table import Cell, Column, Table, ValueKind

if TYPE_CHECKING:
    from vkbench_detection.statistics.selftest import (
        Found,
        HistoryFound,
        HistoryQuiet,
        Quiet,
        Report,
    )

STREAMS = 400
WITHIN = (1, 3, 10, 20)  # results
PAIRS, HISTORY = "pairs", "history"  # what is tried: screen and pairs, or the pass over histories

app = Typer(cls=CommandGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True)
app.command()(comparisons)

COLUMNS = (
    Column(key="noise", heading="noise of a job"),
    Column(key="stage", heading="tried"),
    Column(key="change", heading="change", kind=ValueKind.PERCENT),
    Column(key="direction", heading=""),
    Column(key="false_per_1000", heading="false/1000", kind=ValueKind.VALUE),
    Column(key="blamed_per_1000", heading="blamed/1000", kind=ValueKind.VALUE),
    Column(key="ambiguous_per_1000", heading="ambiguous/1000", kind=ValueKind.VALUE),
    Column(key="jobs_per_1000", heading="extra jobs/1000", kind=ValueKind.COUNT),
    *(Column(key=f"found_{n}", heading=f"found @{n}", kind=ValueKind.PERCENT) for n in WITHIN),
    Column(key="delay", heading="delay", kind=ValueKind.COUNT),
    Column(key="certain", heading="certain", kind=ValueKind.PERCENT),
    Column(key="ambiguous", heading="ambiguous", kind=ValueKind.PERCENT),
    Column(key="target", heading="target"),
    Column(key="verdict", heading=""),
    Column(key="count", heading="results, or streams", hidden=True),
)


@app.callback()
def group() -> None:
    """Test the regression detection on synthetic results."""


@app.command()
@spread
def detector(
    *,
    streams: Annotated[
        int,
        Option(
            "--streams", min=1, metavar="N", help="Synthetic series for each noise and each change."
        ),
    ] = STREAMS,
    seed: Annotated[
        int, Option("--seed", min=0, metavar="N", help="Seed of the random numbers.")
    ] = 0,
    output: Output,
) -> int:
    """Run the regression detection on synthetic noise, with and without changes.

    For each kind of noise without a change, the rows show false alarms, ambiguous suspicions and
    jobs spent on confirming, per 1000 results. For each planted change, slower and faster, they
    show in how many series it is confirmed within 1, 3, 10 and 20 results, and the median delay.

    Rows "history" test the pass over whole series, which decides alone where nothing can be
    measured again: false changes per 1000 results, how many of them blame a kernel that changed
    there, and in how many series a planted change is found as certain or as ambiguous.

    Exit code 1 if a target is missed. A series without a change has 250 results. Fewer series
    than the default are quicker and less certain.
    """
    from vkbench_detection.statistics.selftest import run
    from vkbench_detection.statistics.synthetic import KINDS

    began = time.monotonic()
    with CountedProgress("detector", len(KINDS)) as progress:
        report = run(streams=streams, seed=seed, told=progress.tell)
    show(Table(columns=COLUMNS, rows=_rows(report)), output)
    met, all_targets = sum(report.verdicts), len(report.verdicts)
    seconds = time.monotonic() - began
    tell(f"{met} of {all_targets} targets met, in {seconds:.0f} s")
    return EXIT_OK if met == all_targets else EXIT_REGRESSION


def _rows(report: Report) -> list[dict[str, Cell]]:
    """Each noise with the changes in it, first by pairs and then by history."""
    rows = []
    for quiet, history in zip(report.quiet, report.history_quiet, strict=True):
        rows.append(_quiet(quiet))
        rows += [_found(found) for found in report.found if found.noise == quiet.noise]
        rows.append(_history_quiet(history))
        rows += [_history(each) for each in report.history_found if each.noise == quiet.noise]
    return rows


def _quiet(quiet: Quiet) -> dict[str, Cell]:
    from vkbench_detection.statistics.selftest import FALSE_PER_1000

    return {
        "noise": quiet.noise,
        "stage": PAIRS,
        "false_per_1000": quiet.per_1000(quiet.confirmed),
        "ambiguous_per_1000": quiet.per_1000(quiet.ambiguous),
        "jobs_per_1000": quiet.per_1000(quiet.jobs),
        "target": f"false ≤ {FALSE_PER_1000}/1000",
        "verdict": _verdict(quiet.is_met),
        "count": quiet.results,
    }


def _found(found: Found) -> dict[str, Cell]:
    wanted = found.wanted
    return {
        "noise": found.noise,
        "stage": PAIRS,
        "change": found.change,
        "direction": found.direction,
        **{f"found_{n}": found.recall(n) for n in WITHIN},
        "delay": found.delay,
        "target": f"@{wanted.within} ≥ {wanted.recall:.0%}" if wanted else "",
        "verdict": _verdict(found.is_met),
        "count": len(found.delays),
    }


def _history_quiet(quiet: HistoryQuiet) -> dict[str, Cell]:
    from vkbench_detection.statistics.selftest import FALSE_PER_1000

    return {
        "noise": quiet.noise,
        "stage": HISTORY,
        "false_per_1000": quiet.per_1000(quiet.certain),
        "blamed_per_1000": quiet.per_1000(quiet.blamed),
        "ambiguous_per_1000": quiet.per_1000(quiet.ambiguous),
        "target": f"blamed ≤ {FALSE_PER_1000}/1000",
        "verdict": _verdict(quiet.is_met),
        "count": quiet.results,
    }


def _history(found: HistoryFound) -> dict[str, Cell]:
    wanted = found.wanted
    return {
        "noise": found.noise,
        "stage": HISTORY,
        "change": found.change,
        "direction": "either",
        "certain": found.certain_share,
        "ambiguous": found.told_share - found.certain_share,
        "target": f"certain ≥ {wanted.certain:.0%}, told ≥ {wanted.told:.0%}" if wanted else "",
        "verdict": _verdict(found.is_met),
        "count": found.series,
    }


def _verdict(is_met: bool | None) -> str:
    return "" if is_met is None else "PASS" if is_met else "FAIL"
