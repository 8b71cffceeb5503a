"""`vkbench report`: what was found, as text for people who were not there."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Sequence
from io import StringIO
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from vkbench.words import names
from vkbench.words.markdown import APART
from vkbench.words.units import count_of, rate_column
from vkbench_cli.commands.ask.report_pr import pr
from vkbench_cli.groups import CommandGroup
from vkbench_cli.options.records import RUN_HELP, Devices, Formats, Store
from vkbench_cli.options.spreading import spread
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import hand_over, say, tell
from vkbench_cli.store import reading
from vkbench_tables.table import Table

METRICS = ("hot", "cold")
NO_ACCURACY = "nothing yet: `vkbench accuracy` finds what formats and models lose"

app = Typer(cls=CommandGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True)

_IN_TABLES = re.compile(r"^\|.*$", re.MULTILINE)  # rows of Markdown
_JOINT = "\x1f"  # a blank without width: Rich breaks lines at blanks alone


@app.callback()
def group() -> None:
    """Summarise a run, a change or losses; write the lab as a page."""


@app.command()
@spread
def run(
    *,
    run_name: Annotated[
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
        run_row = queries.find_run(tx, run_name)
        run_news = news.of_run(tx, run_row.id, run_row.label)
    if not only_on_change or summaries.is_eventful(run_news):
        text = summaries.of_run(run_news)
        if markdown:
            hand_over(text)
        else:
            say(_render_text(text), end="")


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
    from vkbench_tables.losses import KEPT_COLUMNS, kept_row

    with reading(store.settings()) as tx:
        run_id = queries.find_run(tx, run, [RunKind.ACCURACY]).id if run else None
        kept = accuracies(tx, run=run_id)
    models = _choose_names(model, {row.model for row in kept if row.model}, "model")
    formats = _choose_names(format, {row.format for row in kept}, "format")
    rows = [
        kept_row(row)
        for row in kept
        if (not model or row.model in models) and (not format or row.format in formats)
    ]
    show(Table(columns=KEPT_COLUMNS, rows=rows, nothing=NO_ACCURACY), output)


app.command()(pr)


def _choose_names(globs: Sequence[str], known: Collection[str], what: str) -> set[str]:
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
    from vkbench_db.ask.devices.names import device_keys
    from vkbench_db.blank import is_blank
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
    tell(f"{file}: {count_of(len(keys), 'device')}, {size} {unit}")


def _render_text(text: str) -> str:
    """Markdown as a terminal shows it: as wide as the screen, names in tables broken after `/`."""
    from rich.console import Console
    from rich.markdown import Markdown

    shown = StringIO()
    joints = _IN_TABLES.sub(lambda row: row[0].replace("/", f"/{_JOINT}"), text.replace(APART, ""))
    Console(file=shown, force_terminal=False).print(Markdown(joints))
    lines = shown.getvalue().replace(_JOINT, "").split("\n")
    return "\n".join(line.rstrip() for line in lines)
