"""`vkbench compare`: two runs side by side."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from vkbench.errors import NothingToDo
from vkbench_cli.measured import spread
from vkbench_cli.options import Output, Store
from vkbench_cli.printing import Cell, Column, Kind, Table, show

if TYPE_CHECKING:
    from vkbench_db.comparison import Change, Comparison, Pair

LEAST_SAMPLES = 6  # fewer have no interval that holds the median with 95 %
# A run's interval knows nothing of other runs: twice the same kernels on an H200 differed by up to
# 0.5 %, with intervals of 0.1 %.
FLOOR = 0.01

_MEANT = "its number, label, UUID or the beginning of it, or last."
Old = Annotated[str, Argument(metavar="OLD", help=f"A run: {_MEANT}")]
New = Annotated[str, Argument(metavar="NEW", help=f"The run to compare with it: {_MEANT}")]

COLUMNS = (
    Column(key="host", heading="host", lifted=True),
    Column(key="device_name", heading="device", lifted=True),
    Column(key="device", heading="device key", hidden=True),
    Column(key="case", heading="case"),
    Column(key="mode", heading="mode", hidden=True),
    Column(key="variant", heading="variant"),
    Column(key="metric", heading="metric"),
    Column(key="old_verdict", heading="was"),
    Column(key="new_verdict", heading="is"),
    Column(key="old_seconds", heading="old", kind=Kind.SECONDS),
    Column(key="old_spread", heading="±", kind=Kind.PERCENT),
    Column(key="new_seconds", heading="new", kind=Kind.SECONDS),
    Column(key="new_spread", heading="±", kind=Kind.PERCENT),
    Column(key="ratio", heading="new/old", kind=Kind.NUMBER),
    Column(key="change", heading=""),
    Column(key="reason", heading="why"),
)


def compare(
    *,
    old: Old,
    new: New,
    changed: Annotated[
        bool, Option("--changed", help="Only what differs by more than its noise.")
    ] = False,
    store: Store,
    output: Output,
) -> None:
    """Compare the timings and verdicts of two runs.

    Verdicts that changed come first, then times, the slowdowns first. A ratio above 1 is slower;
    `~` says that the intervals of the medians overlap: there may be no difference.

    \b
    vkbench compare 3 last
    """
    from vkbench_cli.store import opened
    from vkbench_db.comparison import compare as ask
    from vkbench_db.queries import find_run

    with opened(store.settings()) as database, database.reading() as tx:
        before, after = find_run(tx, old).id, find_run(tx, new).id
        found = ask(tx, before, after)
    if not (found.pairs or found.changes):
        raise NothingToDo(f"runs {before} and {after} have no timed case in common{_alone(found)}")
    rows = [_changed(change) for change in found.changes]
    rows += [_timed(pair) for pair in found.pairs if not (changed and _may_be_equal(pair))]
    show(Table(columns=COLUMNS, rows=rows), output)
    print(_summary(found), file=sys.stderr)


def _changed(change: Change) -> dict[str, Cell]:
    return {
        "host": change.host,
        "device_name": change.device_name,
        "device": change.device,
        "case": change.case_name,
        "mode": change.mode,
        "variant": change.variant,
        "old_verdict": change.old,
        "new_verdict": change.new,
        "reason": change.reason,
    }


def _timed(pair: Pair) -> dict[str, Cell]:
    old, new = pair.old, pair.new
    ran = dict.fromkeys(filter(None, (old.variant_run, new.variant_run)))
    return {
        "host": pair.host,
        "device_name": pair.device_name,
        "device": pair.device,
        "case": pair.case_name,
        "mode": pair.mode,
        "variant": " → ".join(ran) or pair.variant,
        "metric": pair.metric,
        "old_seconds": old.seconds,
        "old_spread": spread(old),
        "new_seconds": new.seconds,
        "new_spread": spread(new),
        "ratio": pair.ratio,
        "change": "~" if _may_be_equal(pair) else "slower" if pair.ratio > 1 else "faster",
    }


def _may_be_equal(pair: Pair) -> bool:
    """Whether the difference is small, the intervals overlap, or the samples are too few."""
    few = min(pair.old.count, pair.new.count) < LEAST_SAMPLES
    overlap = pair.old.low <= pair.new.high and pair.new.low <= pair.old.high
    return few or overlap or abs(pair.ratio - 1) < FLOOR


def _summary(found: Comparison) -> str:
    words = [f"{len(found.pairs)} timings in common"]
    if found.geometric_mean is not None:
        words.append(f"geometric mean of new/old {found.geometric_mean:.4f}")
    if found.changes:
        words.append(f"{len(found.changes)} verdicts changed")
    return ", ".join(words) + _alone(found)


def _alone(found: Comparison) -> str:
    if not (found.only_old or found.only_new):
        return ""
    return f" ({found.only_old} cases only in the old one, {found.only_new} only in the new one)"
