"""`make plans`: prints a table about the plans; ARGS chooses which, and of which devices."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from plans import checklist, rocm_grid
from plans.evidence import Evidence, read_evidence
from plans.targets import TARGETS
from vkbench.errors import UsageError, VkbenchError
from vkbench_cli.main import explain
from vkbench_cli.options.records import Devices, Store
from vkbench_cli.options.spreading import spread
from vkbench_cli.show.printing import Output, ReaderLeft, show
from vkbench_cli.show.progress import CountedProgress
from vkbench_cli.show.telling import hand_over, tell
from vkbench_tables.table import Column, Rank, Table, ValueKind
from vkbench_tables.written.text import markdown_table

COLUMNS = (
    Column(key="plan", heading="plan"),
    Column(key="target", heading="target", rank=Rank.KEY),
    Column(key="wanted", heading="wanted"),
    Column(key="standing", heading="is", rank=Rank.KEY),
    Column(key="measured", heading="measured"),
    Column(key="value", heading="value", kind=ValueKind.VALUE, hidden=True),
    Column(key="how", heading="how, or how to measure it", prose=True),
)

app = typer.Typer(rich_markup_mode=None, add_completion=False)


class Name(StrEnum):
    """The tables about the plans."""

    TARGETS = "targets"
    CHECKLIST = "checklist"
    GRID = "grid"


@app.command()
@spread
def plans(
    *,
    name: Annotated[Name, typer.Argument(metavar="TABLE", show_default=True)] = Name.TARGETS,
    device: Devices = [],  # noqa: B006
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a table for GitHub, chat or mail.")
    ] = False,
    store: Store,
    output: Output,
) -> None:
    """Print a table about the plans that vkbench grew from: targets, checklist or grid.

    targets: the success metrics of the plans beside what was measured. vkbench's times are the
    newest results of this host's devices, or of those of the whole fleet that --device chooses.
    numpy's are measured now, which takes half a minute. CUDA's are those of `vkbench run --peer
    torch`; without them stand comparisons that were recorded on one GPU, which the row names. A
    target without a measurement shows the command that makes one.

    checklist: every item that the plans ask for, and the kernels, tests, pages or commands that
    show it, or why it is not here.

    grid: the kernels of ROCm's grid by their names, and what they are here.

    \b
    make plans ARGS="--device '*' --database lab.db"
    make plans ARGS="checklist --markdown"
    """
    if output.json + output.csv + markdown > 1:
        raise UsageError("only one of --json, --csv and --markdown can be printed")
    match name:
        case Name.TARGETS:
            table = targets_table(read_evidence(store.settings(), device))
        case Name.CHECKLIST:
            table = checklist.table()
        case Name.GRID:
            table = rocm_grid.table()
    if markdown:
        hand_over(markdown_table(table, most=len(table.rows)))
    else:
        show(table, output)
    if name is not Name.GRID:
        counts = Counter(str(row["standing"]) for row in table.rows)
        tell(", ".join(f"{count} {standing}" for standing, count in counts.items()))


def targets_table(evidence: Evidence) -> Table:
    """Each success metric with what the evidence says of it."""
    with CountedProgress("targets", len(TARGETS)) as progress:
        rows = [
            {"plan": target.plan, "target": target.name, "wanted": target.wanted}
            | vars(target.find(evidence))
            for target in progress.over(TARGETS)
        ]
    return Table(columns=COLUMNS, rows=rows)


def main(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code."""
    try:
        command = typer.main.get_command(app)
        command.main(list(arguments), prog_name="python -m plans", standalone_mode=False)
    except ReaderLeft:
        pass
    except (VkbenchError, typer.TyperException, KeyboardInterrupt) as error:
        message, code = explain(error)
        tell(message.replace("vkbench: ", "plans: ", 1))
        return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
