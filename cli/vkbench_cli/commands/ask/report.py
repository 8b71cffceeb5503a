"""`vkbench report`: what was found, as text for people who were not there."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from vkbench import names
from vkbench.errors import UsageError
from vkbench.job import PEERS, Mode
from vkbench.markdown import APART
from vkbench.settings import Settings
from vkbench.units import counted, rate_column
from vkbench_cli.groups import CommandGroup
from vkbench_cli.options import RUN_HELP, Devices, Formats, Store
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.progress import CountedProgress
from vkbench_cli.show.telling import hand_over, say, tell
from vkbench_cli.spreading import spread
from vkbench_cli.store import reading
from vkbench_tables.table import Column, Rank, Table, ValueKind
from vkbench_tables.text import markdown_table

if TYPE_CHECKING:
    from vkbench_local.peers.standings import Evidence

METRICS = ("hot", "cold")
NO_ACCURACY = "nothing yet: `vkbench accuracy` finds what formats and models lose"

app = Typer(cls=CommandGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True)


TARGETS = (
    Column(key="plan", heading="plan"),
    Column(key="target", heading="target", rank=Rank.KEY),
    Column(key="wanted", heading="wanted"),
    Column(key="standing", heading="is", rank=Rank.KEY),
    Column(key="measured", heading="measured"),
    Column(key="value", heading="value", kind=ValueKind.VALUE, hidden=True),
    Column(key="how", heading="how, or how to measure it", prose=True),
)


@app.callback()
def group() -> None:
    """Summarise a run, the success metrics or losses; write the lab as a page."""


@app.command()
@spread
def run(
    *,
    asked: Annotated[
        str,
        Argument(metavar="RUN", help=RUN_HELP, show_default=False),
    ],
    markdown: Annotated[
        bool, Option("--markdown", help="Print Markdown, for GitHub, chat or mail.")
    ] = False,
    only_on_change: Annotated[
        bool,
        Option("--only-on-change", help="Print nothing if nothing failed and nothing changed."),
    ] = False,
    store: Store,
) -> None:
    """Summarise a run: wrong results, what became slower or faster, counts of jobs.

    \b
    vkbench report run last --markdown >> "$GITHUB_STEP_SUMMARY"
    """
    from vkbench_db.ask import queries
    from vkbench_detection.regress import news
    from vkbench_scheduler.watch import summaries

    with reading(store.settings()) as tx:
        found = queries.find_run(tx, asked)
        told = news.of_run(tx, found.id, found.label)
    if not only_on_change or summaries.is_eventful(told):
        text = summaries.of_run(told)
        if markdown:
            hand_over(text)
        else:
            say(_plain(text), end="")


@app.command()
@spread
def targets(
    *,
    device: Devices = [],  # noqa: B006
    markdown: Annotated[
        bool, Option("--markdown", help="Print a table for GitHub, chat or mail.")
    ] = False,
    store: Store,
    output: Output,
) -> None:
    """Compare the success metrics of vkbench's plans with what was measured.

    vkbench's times are the newest results of this host's devices, or of those of the whole fleet
    that --device chooses. numpy's are measured now, which takes half a minute. CUDA's are those of
    `vkbench run --suite targets --peer torch`; without them stand comparisons that were recorded on
    one GPU, which the row names. Sizes of workgroups are those of `vkbench tune`, losses those of
    `vkbench accuracy`. For a target that was not measured the row shows the command that measures
    it; `vkbench run --suite targets` measures most. The exit code is 0 even if targets are missed.

    \b
    vkbench report targets --device H200 --markdown
    vkbench report targets --device '*'
    """
    if output.json + output.csv + markdown > 1:
        raise UsageError("only one of --json, --csv and --markdown can be printed")
    from vkbench_local.peers.standings import answered
    from vkbench_local.peers.targets import TARGETS as PLANNED

    evidence = _evidence(store.settings(), device)
    with CountedProgress("targets", len(PLANNED)) as progress:
        rows = [
            {"plan": each.plan, "target": each.name, "wanted": each.wanted}
            | vars(answered(each.find, evidence))
            for each in progress.over(PLANNED)
        ]
    table = Table(columns=TARGETS, rows=rows)
    if markdown:
        hand_over(markdown_table(table))
    else:
        show(table, output)
    counts = Counter(str(row["standing"]) for row in rows)
    tell(", ".join(f"{count} {standing}" for standing, count in counts.items()))


def _evidence(ours: Settings, selectors: Sequence[str]) -> Evidence:
    """What was measured on the devices that selectors choose, without any on this host's."""
    from vkbench.accuracy import Subject
    from vkbench_db.ask.accuracies import accuracies
    from vkbench_db.ask.blank import is_blank
    from vkbench_db.ask.device_names import device_keys
    from vkbench_db.ask.peers import peer_pairs
    from vkbench_db.ask.queries import devices, results
    from vkbench_db.upkeep.tuning import tuned
    from vkbench_local.peers import cuda
    from vkbench_local.peers.standings import Evidence

    with reading(ours) as tx:
        if is_blank(tx):
            told = "submit" if selectors else "run"
            tell(f"no results yet: `vkbench {told} --suite targets` makes some")
            return Evidence(results=(), host=ours.host, of_fleet=bool(selectors))
        known = {row.key: row for row in devices(tx)}
        chosen = device_keys(tx, selectors) if known else []
        keys = [key for key in chosen if selectors or known[key].host == ours.host]
        modes = [Mode.CORRECTNESS, Mode.PERFORMANCE]
        newest = results(tx, devices=keys, modes=modes, latest=True, limit=None) if keys else []
        found = Evidence(
            results=[row for row in newest if row.track != PEERS],
            devices={key: known[key].facts for key in keys},
            tuned=tuned(tx, keys) if keys else (),
            losses=accuracies(tx, subjects=[Subject.MODEL]),
            pairs=[pair for pair in peer_pairs(tx, [cuda.PEER]) if pair.device in keys],
            host=ours.host,
            of_fleet=any(known[key].host != ours.host for key in keys),
        )
    if not known:
        tell("no device is known yet: `vkbench run --suite targets` measures on this machine's")
    elif not keys:
        hosts = ", ".join(sorted({row.host for row in known.values()}))
        tell(f"no devices of this host ({ours.host}), only of {hosts}: --device '*' takes all")
    return found


@app.command()
@spread
def accuracy(
    *,
    run: Annotated[str, Option(metavar="RUN", help=f"Only of this one. {RUN_HELP}")] = "",
    model: Annotated[
        list[str],
        Option(metavar="GLOB", help="Only models whose name matches; may be repeated."),
    ] = [],  # noqa: B006
    format: Formats = [],  # noqa: B006
    store: Store,
    output: Output,
) -> None:
    """List what formats and models lost, as `vkbench accuracy` found it.

    Without --run it is the newest of each: a model that read the same text again counts once.

    \b
    vkbench report accuracy --model "llama*"
    """
    from vkbench.run import RunKind
    from vkbench_db.ask import queries
    from vkbench_db.ask.accuracies import accuracies
    from vkbench_tables.kept_accuracy import COLUMNS, kept_row

    with reading(store.settings()) as tx:
        asked = queries.find_run(tx, run, [RunKind.ACCURACY]).id if run else None
        found = accuracies(tx, run=asked)
    models = _chosen(model, {row.model for row in found if row.model}, "model")
    formats = _chosen(format, {row.format for row in found}, "format")
    rows = [
        kept_row(row)
        for row in found
        if (not model or row.model in models) and (not format or row.format in formats)
    ]
    show(Table(columns=COLUMNS, rows=rows, nothing=NO_ACCURACY), output)


def _chosen(globs: Sequence[str], known: Collection[str], what: str) -> set[str]:
    return {name for glob in globs for name in names.matching(glob, sorted(known), what)}


@app.command()
@spread
def html(
    *,
    file: Annotated[
        Path, Argument(metavar="FILE", help="File to write the page to.", show_default=False)
    ],
    device: Devices = [],  # noqa: B006
    metric: Annotated[str, Option(metavar="METRIC", help="Timings to show: hot or cold.")] = "hot",
    series: Annotated[
        int,
        Option(
            metavar="N", min=0, help="Draw at most N series of each device, changed ones first."
        ),
    ] = 24,
    store: Store,
) -> None:
    """Write one HTML file with heat maps, rooflines and series, to read without a server.

    Nothing is loaded from anywhere: the file can be mailed, or kept with a release.

    \b
    vkbench report html lab.html
    vkbench report html h200.html --device H200 --series 100
    """
    from vkbench_cli.files import check_writable, whole_file
    from vkbench_db.ask.blank import is_blank
    from vkbench_db.ask.device_names import device_keys
    from vkbench_web.handout import handout

    check_writable(file)
    chosen = names.pick(metric, METRICS, "metric")
    with reading(store.settings()) as tx:
        keys = [] if is_blank(tx) else device_keys(tx, device)
        page = handout(tx, keys, time.time(), metric=chosen, most=series)
    data = page.encode()
    with whole_file(file) as opened:
        opened.write(data)
    unit, (size,) = rate_column([len(data)], "B")
    tell(f"{file}: {counted(len(keys), 'device')}, {size} {unit}")


def _plain(text: str) -> str:
    """Markdown as a terminal shows it: rendered, the width of the screen."""

    from rich.console import Console
    from rich.markdown import Markdown

    lines = StringIO()
    Console(file=lines, force_terminal=False).print(Markdown(text.replace(APART, "")))
    return "".join(f"{line.rstrip()}\n" for line in lines.getvalue().splitlines())
