"""`vkbench compare`: two sets of results side by side, what became wrong or slower first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from vkbench.errors import (
    EXIT_OK,
    EXIT_REGRESSION,
    UsageError,
)
from vkbench.peers import BY_NAME
from vkbench.result import COMPILE, COPIES, SUBMIT
from vkbench.words import names
from vkbench.words.units import count_of
from vkbench_cli.options.gate import FailOn, check_comparison, exit_code
from vkbench_cli.options.records import Store
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import hand_over, tell
from vkbench_cli.store import reading
from vkbench_tables.comparisons import comparison, comparison_markdown, comparison_words
from vkbench_tables.statistics import table_of_moved

if TYPE_CHECKING:
    from vkbench_detection.compare.compared import Pair

METRICS = ("hot", "cold", COPIES, COMPILE, SUBMIT)
_FORMS = (
    "a run (number, label, UUID, last), a baseline's name, bundle:SHA, build:NAME, "
    "driver:VERSION, date:2026-11-01 or device:SELECTOR."
)


class Sort(StrEnum):
    """What the timings are ordered by, below the verdicts."""

    CHANGE = "change"  # slower, faster, the rest; the largest change first
    CASE = "case"
    P = "p"


def compare(
    *,
    old: Annotated[
        str, Argument(metavar="OLD", show_default=False, help=f"What to compare with: {_FORMS}")
    ] = "",
    new: Annotated[
        str,
        Argument(
            metavar="NEW", show_default=False, help="What to compare, in the same form as OLD."
        ),
    ] = "",
    peer: Annotated[
        str,
        Option(
            metavar="NAME,..",
            help=f"Show our kernels beside these programs: {', '.join(BY_NAME)}; OLD may be a run.",
        ),
    ] = "",
    all_rows: Annotated[
        bool,
        Option(
            "--all/--changed",
            help="Show timings that did not change significantly too, or only changes.",
        ),
    ] = False,
    metric: Annotated[
        list[str],
        Option(
            metavar="METRIC",
            help="Only this metric: hot, cold, copies, compile or submit; may be repeated.",
        ),
    ] = [],  # noqa: B006
    sort: Annotated[
        Sort,
        Option(help="Sort the timings by size of change, case or p-value.", case_sensitive=False),
    ] = Sort.CHANGE,
    fail_on: Annotated[
        FailOn,
        Option(
            "--fail-on",
            help=(
                "Exit with 3 if a result became wrong (wrong, regression), with 4 if a job fails "
                "now, and with 1 if one is slower (regression)."
            ),
            case_sensitive=False,
        ),
    ] = FailOn.NEVER,
    statistics: Annotated[
        bool,
        Option(
            "--statistics",
            help="Show instead what drivers made of kernels and what changed of it: registers, "
            "bytes, joules.",
        ),
    ] = False,
    mix: Annotated[
        bool,
        Option(
            "--mix", help="Compare timings even if they were taken under different clock policies."
        ),
    ] = False,
    markdown: Annotated[
        bool, Option("--markdown", help="Print a summary for GitHub, chat or mail.")
    ] = False,
    store: Store,
    output: Output,
) -> int:
    """Compare two runs, bundles, builds, drivers, devices or baselines.

    Changed verdicts come first, then slower timings, then faster ones. A positive delta means
    slower, and `~` no significant change; "too noisy", "too few" samples and "flagged" mean that
    nothing is known. p is the probability that chance makes such a difference, and n counts the
    results of each side, which all ran the same kernel. The last row has the geometric means of
    all timings that count. If the two sides have no device in common, timings of different devices
    are shown side by side, with their shares of the peak rate where both devices are calibrated.

    --peer shows what `vkbench run --peer` timed in turns on one device: above 1 our kernel is
    faster. A ratio has fallen if it is below all of the last ten, and 5 % below their median; then
    --fail-on regression exits with 1, though our own time may not have changed.

    \b
    vkbench compare 3 last --fail-on regression
    vkbench compare bundle:4f1c last --metric hot
    vkbench compare driver:580.82 driver:580.159 --all
    vkbench compare driver:580.82 driver:580.159 --statistics
    vkbench compare device:H100 device:H200
    vkbench compare --peer torch

    Exit codes with --fail-on: 0 nothing became worse, 1 slower, 3 a result became wrong, 4 a job
    failed that did not fail before, 7 no timing could be compared.
    A slower device is no regression: --fail-on regression exits with 2 if the two sides have no
    device in common.
    """
    from vkbench_detection.compare.comparison import compare as ask
    from vkbench_detection.compare.comparison import with_noise
    from vkbench_detection.compare.drift import drifts
    from vkbench_detection.compare.provenance import provenances
    from vkbench_detection.compare.references import find
    from vkbench_detection.compare.statistics import list_moved_statistics

    if peer:
        if new or metric or markdown or mix or fail_on is FailOn.WRONG:
            raise UsageError("--peer takes a run and an output form: leave out NEW and the rest")
        has_fallen = _with_peers(peer, old, store, output)
        return EXIT_REGRESSION if has_fallen and fail_on is FailOn.REGRESSION else EXIT_OK
    if not (old and new):
        raise UsageError("give OLD and NEW, or --peer NAME")
    if statistics and markdown:
        raise UsageError("--markdown is a summary of timings: leave out --statistics")
    if output.json + output.csv + markdown > 1:
        raise UsageError("only one of --json, --csv and --markdown can be printed")
    metrics = [names.pick(name, METRICS, "metric") for name in metric]
    with reading(store.settings()) as tx:
        compared = ask(tx, find(tx, old), find(tx, new), metrics=metrics)
        check_comparison(compared, mix=mix, fail_on=fail_on)
        moved = list_moved_statistics(tx, compared.pairs)
        chosen = (
            compared.pairs
            if all_rows
            else [pair for pair in compared.pairs if pair.is_slower or pair.is_faster]
        )
        pairs = sorted(with_noise(tx, chosen, compared.histories), key=_ORDERS[sort])
        jobs = (side.job for pair in pairs for side in (pair.old, pair.new))
        canaries = drifts(tx, compared.pairs)
        shown = comparison.table(compared, pairs, provenances(tx, jobs), canaries)
    if statistics:
        show(table_of_moved(moved), output)
    elif markdown:
        hand_over(comparison_markdown.in_markdown(compared, shown, canaries))
    elif shown.rows or output.json or output.csv:
        show(shown, output)
    lines = [*comparison_words.device_lines(compared), *comparison_words.drift_lines(canaries)]
    if moved and not statistics:
        lines.append(
            f"  {count_of(len(moved), 'statistic')} of drivers changed: --statistics shows them"
        )
    tell("\n".join([comparison_words.summary(compared), *lines]))
    return exit_code(compared, fail_on)


def _with_peers(words: str, run: str, store: Store, output: Output) -> bool:
    from vkbench_cli.show.peers import show_peers
    from vkbench_db.ask.queries import find_run

    peers = [names.pick(name, BY_NAME, "peer") for name in words.split(",") if name]
    with reading(store.settings()) as tx:
        return show_peers(tx, output, peers, find_run(tx, run).id if run else None)


_ORDERS: Mapping[Sort, Callable[[Pair], tuple[object, ...]]] = {
    Sort.CHANGE: comparison.by_change,
    Sort.CASE: lambda pair: (pair.work.case_name, pair.metric, pair.work.device),
    Sort.P: lambda pair: (_p(pair), pair.work.case_name, pair.metric),
}


def _p(pair: Pair) -> float:
    ratio = pair.ratio
    return ratio.p if ratio else inf
