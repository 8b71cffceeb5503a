"""`vkbench selftest comparisons`: whether comparisons of what did not change say so."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from vkbench.errors import EXIT_OK, EXIT_REGRESSION
from vkbench_cli.options.spreading import spread
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import tell
from vkbench_tables.table import Column, Table, ValueKind

COLUMNS = (
    Column(key="what", heading="of results without a change"),
    Column(key="noise", heading="noise"),
    Column(key="comparisons", heading="comparisons", kind=ValueKind.COUNT),
    Column(key="share", heading="right", kind=ValueKind.PERCENT),
    Column(key="target", heading="target"),
    Column(key="verdict", heading=""),
)


@spread
def comparisons(
    *,
    count: Annotated[
        int, Option("--count", min=1, metavar="N", help="Comparisons for each row.")
    ] = 400,
    seed: Annotated[
        int, Option("--seed", min=0, metavar="N", help="Seed of the random numbers.")
    ] = 0,
    output: Output,
) -> int:
    """Compare synthetic results between which nothing changed.

    Rows of means show how often the interval of a geometric mean holds 1: that of two nights of a
    device, of twelve nights each, and of two or three devices, whose days move all timings
    together. Rows of tables show in how many no case of 40 seems slower or faster.

    Exit code 1 if a target is missed. Fewer comparisons than the default are less certain.
    """
    from vkbench_detection.statistics.coverage import coverages

    measured = list(coverages(comparisons=count, seed=seed))
    rows = [
        {**vars(coverage), "verdict": "PASS" if coverage.is_met else "FAIL"}
        for coverage in measured
    ]
    show(Table(columns=COLUMNS, rows=rows), output)
    met = sum(coverage.is_met for coverage in measured)
    tell(f"{met} of {len(measured)} targets met")
    return EXIT_OK if met == len(measured) else EXIT_REGRESSION
