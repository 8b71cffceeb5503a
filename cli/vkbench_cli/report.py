"""How a run ended: its table, a line of counts, and the exit code that says the worst of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

from vkbench.errors import EXIT_OK, NothingToDo, VkbenchError, WrongResult
from vkbench.job import State
from vkbench.units import counted
from vkbench_cli.measured import rows_of, table
from vkbench_cli.options import Output
from vkbench_cli.printing import Cell, show
from vkbench_db import queries
from vkbench_db.database import Database
from vkbench_db.detection import Detected

_ENDS = (State.PASSED, State.WRONG, State.SKIPPED, State.FAILED, State.CANCELLED)

UNSCREENED = (
    "new timings were not screened for regressions, scipy is not installed here: "
    "`pip install 'vkbench[detection]'`, or `vkbench import` them on a host that has it"
)


def conclude(database: Database, run: int, output: Output, *, all_rows: bool = False) -> int:
    """Print a run's results on stdout and its counts on stderr; says the exit code."""
    with database.reading() as tx:
        rows = rows_of(reversed(queries.results(tx, run=run, limit=None)))
        counts = queries.find_run(tx, str(run)).progress.counts
    brief = not (all_rows or output.json or output.csv)
    shown = telling(rows) if brief else rows
    show(table(shown, hidden=("finished_at",)), output)
    print(summary(run, counts, len(rows) - len(shown)), file=sys.stderr)
    return exit_code(counts)


def telling(rows: Sequence[Mapping[str, Cell]]) -> Sequence[Mapping[str, Cell]]:
    """The rows that people want to see: timings and what did not pass; all if there are none."""
    told = [row for row in rows if row["hot_seconds"] or row["verdict"] != State.PASSED]
    return told or rows


def summary(run: int, counts: Mapping[State, int], hidden: int) -> str:
    """One line: `run 3: 40 passed, 1 wrong (28 passed checks not shown: --all)`."""
    ends = ", ".join(f"{counts[state]} {state}" for state in _ENDS if counts.get(state))
    more = f" ({hidden} passed checks not shown: --all)" if hidden else ""
    return f"run {run}: {ends or 'no job ended'}{more}"


def findings(detected: Detected) -> Iterator[str]:
    """A line for each thing that the screening of new results found, or why none were screened."""
    if detected.suspected:
        suspected = f"{counted(len(detected.suspected), 'change')} suspected"
        yield f"{suspected}: `vkbench regressions suspected`"
    if detected.opened:
        opened = f"{counted(len(detected.opened), 'regression')} opened"
        yield f"{opened}: `vkbench regressions ls`"
    if detected.is_unscreened:
        yield UNSCREENED


def exit_code(counts: Mapping[State, int]) -> int:
    """The worst of what happened."""
    if counts.get(State.WRONG):
        return WrongResult.exit_code
    if counts.get(State.FAILED):
        return VkbenchError.exit_code
    return EXIT_OK if counts.get(State.PASSED) else NothingToDo.exit_code
