"""`vkbench compare`: two sets of results side by side, what became wrong or slower first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from vkbench import names
from vkbench.errors import EXIT_OK, EXIT_REGRESSION, NothingToDo, UsageError, WrongResult
from vkbench.job import State
from vkbench_cli import comparing
from vkbench_cli.options import Output, Store
from vkbench_cli.printing import show

if TYPE_CHECKING:
    from vkbench_db.comparison import Comparison, Pair

METRICS = ("hot", "cold")
_FORMS = (
    "a run (number, label, UUID, last), a baseline's name, bundle:SHA, driver:VERSION, "
    "date:2026-11-01 or device:SELECTOR."
)


class FailOn(StrEnum):
    """What ends the command with an error."""

    REGRESSION = "regression"  # 1; 3 where something became wrong
    WRONG = "wrong"  # 3
    NEVER = "never"


class Sort(StrEnum):
    """What the timings are ordered by, below the verdicts."""

    CHANGE = "change"  # slower, faster, the rest; the largest change first
    CASE = "case"
    P = "p"


def compare(
    *,
    old: Annotated[str, Argument(metavar="OLD", help=f"What to compare with: {_FORMS}")],
    new: Annotated[str, Argument(metavar="NEW", help="What is compared with it, said alike.")],
    all_rows: Annotated[
        bool, Option("--all/--changed", help="Also what is the same within its noise.")
    ] = False,
    metric: Annotated[
        list[str], Option(metavar="METRIC", help="Only this: hot or cold; may be repeated.")
    ] = [],  # noqa: B006
    sort: Annotated[Sort, Option(help="Order of the timings.", case_sensitive=False)] = Sort.CHANGE,
    fail_on: Annotated[
        FailOn,
        Option(
            "--fail-on",
            help="End with 3 if a result became wrong, and for regression with 1 if one is slower.",
            case_sensitive=False,
        ),
    ] = FailOn.NEVER,
    mix: Annotated[
        bool, Option("--mix", help="Compare times of unlike clock policies all the same.")
    ] = False,
    markdown: Annotated[
        bool, Option("--markdown", help="Print a summary for GitHub, chat or mail.")
    ] = False,
    store: Store,
    output: Output,
) -> int:
    """Compare two runs, bundles, drivers, devices, days or baselines.

    Verdicts that changed come first, then
    what is slower, then what is faster. A ratio above 1 is slower; `~` is no significant change.
    Where the two sides have no device in common, times on the one's devices stand beside times on
    the other's, with shares of their roofs where both are calibrated.

    \b
    vkbench compare 3 last --fail-on regression
    vkbench compare bundle:4f1c last --metric hot
    vkbench compare driver:580.82 driver:580.159 --all
    vkbench compare device:H100 device:H200

    Exit codes with --fail-on: 0 all as before or better, 1 slower, 3 a result became wrong.
    A slower device is no regression: without a device in common, --fail-on regression ends with 2.
    """
    from vkbench_cli.store import reading
    from vkbench_db.comparison import compare as ask
    from vkbench_db.comparison import with_noise
    from vkbench_db.drift import drifts
    from vkbench_db.provenance import provenances
    from vkbench_db.references import find

    if output.json + output.csv + markdown > 1:
        raise UsageError("only one of --json, --csv and --markdown can be printed")
    metrics = [names.pick(asked, METRICS, "metric") for asked in metric]
    with reading(store.settings()) as tx:
        found = ask(tx, find(tx, old), find(tx, new), metrics=metrics)
        _check(found, mix=mix, fail_on=fail_on)
        chosen = found.pairs if all_rows else [pair for pair in found.pairs if pair.is_changed]
        pairs = sorted(with_noise(tx, chosen), key=_ORDERS[sort])
        jobs = (side.job for pair in pairs for side in (pair.old, pair.new))
        canaries = drifts(tx, found.pairs)
        shown = comparing.table(found, pairs, provenances(tx, jobs), canaries)
    if markdown:
        print(comparing.in_markdown(found, shown, canaries), end="")
    elif shown.rows or output.json or output.csv:
        show(shown, output)
    lines = [*comparing.device_lines(found), *comparing.drift_lines(canaries)]
    print("\n".join([comparing.summary(found), *lines]), file=sys.stderr)
    return _exit_code(found, fail_on)


def _check(found: Comparison, *, mix: bool, fail_on: FailOn) -> None:
    if not (found.pairs or found.changes):
        raise NothingToDo(
            f"{comparing.sides(found)}: no timed case in common{comparing.alone(found)}"
        )
    if found.is_across and fail_on is FailOn.REGRESSION:
        raise UsageError(
            f"{comparing.sides(found)}: a slower device is no regression; --fail-on regression "
            "needs a device in common, --fail-on wrong does not"
        )
    if found.policies and not mix:
        said = "; ".join(f"{key} {old} and now {new}" for key, old, new in found.policies)
        raise UsageError(
            f"times under unlike clock policies say nothing of kernels ({said.strip()}): "
            "--mix compares them all the same"
        )


def _by_change(pair: Pair) -> tuple[int, float, str, str]:
    rank = (pair.is_slower, pair.is_faster, not pair.is_changed).index(True)
    size = pair.quotient if pair.is_faster else -pair.quotient
    return rank, size, pair.work.case_name, pair.metric


_ORDERS: Mapping[Sort, Callable[[Pair], tuple[object, ...]]] = {
    Sort.CHANGE: _by_change,
    Sort.CASE: lambda pair: (pair.work.case_name, pair.metric, pair.work.device),
    Sort.P: lambda pair: (pair.ratio.p, pair.work.case_name, pair.metric),
}


def _exit_code(found: Comparison, fail_on: FailOn) -> int:
    is_wrong = any(change.new is State.WRONG for change in found.changes)
    if is_wrong and fail_on is not FailOn.NEVER:
        return WrongResult.exit_code
    is_slower = any(pair.is_slower for pair in found.pairs)
    return EXIT_REGRESSION if is_slower and fail_on is FailOn.REGRESSION else EXIT_OK
