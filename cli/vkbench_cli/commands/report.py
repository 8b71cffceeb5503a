"""`vkbench report`: what was found, as text for people who were not there."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Annotated

from typer import Argument, Option, Typer

from vkbench.errors import UsageError
from vkbench.job import Mode
from vkbench.settings import settings
from vkbench_cli.layout import Rank
from vkbench_cli.options import Devices, Output, Store, spread
from vkbench_cli.printing import Column, Kind, Table, markdown_table, show

app = Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)


TARGETS = (
    Column(key="plan", heading="plan"),
    Column(key="target", heading="target", rank=Rank.KEY),
    Column(key="wanted", heading="wanted"),
    Column(key="standing", heading="is", rank=Rank.KEY),
    Column(key="measured", heading="measured"),
    Column(key="value", heading="value", kind=Kind.VALUE, hidden=True),
    Column(key="how", heading="how, or how to measure it", prose=True),
)


@app.callback()
def group() -> None:
    """Say what was found, for people who were not there."""


@app.command()
@spread
def run(
    *,
    asked: Annotated[
        str, Argument(metavar="RUN", help="A run: its number, UUID or last.", show_default=False)
    ],
    markdown: Annotated[
        bool, Option("--markdown", help="As GitHub shows it, and not as a terminal does.")
    ] = False,
    only_on_change: Annotated[
        bool, Option("--only-on-change", help="Say nothing where all went well as before.")
    ] = False,
    store: Store,
) -> None:
    """Sum a run up: what is wrong, what became slower or faster, how many jobs there were.

    \b
    vkbench report run last --markdown >> "$GITHUB_STEP_SUMMARY"
    """
    from vkbench_cli.store import reading
    from vkbench_db import news, queries
    from vkbench_scheduler import summaries

    with reading(store.settings()) as tx:
        found = queries.find_run(tx, asked)
        told = news.of_run(tx, found.id, found.label)
    if not only_on_change or summaries.is_eventful(told):
        text = summaries.of_run(told)
        print(text if markdown else _plain(text), end="")


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
    """Hold the success metrics of vkbench's plans against what was measured.

    Our times are of the newest results of this host's devices, numpy's are measured now: about half
    a minute. Comparisons with CUDA were recorded on one GPU and say on which. A target that was not
    measured names the command that measures it. No standing of a target is an error.

    \b
    vkbench report targets --device H200 --markdown
    """
    if output.json + output.csv + markdown > 1:
        raise UsageError("only one of --json, --csv and --markdown can be printed")
    from vkbench_cli.standings import Evidence
    from vkbench_cli.store import reading
    from vkbench_cli.targets import found
    from vkbench_db.blank import is_blank
    from vkbench_db.queries import devices, results

    ours = [Mode.CORRECTNESS, Mode.PERFORMANCE]
    with reading(store.settings()) as tx:
        is_new = is_blank(tx)
        newest = [] if is_new else results(tx, devices=device, modes=ours, latest=True, limit=None)
        gpus = frozenset(row.key for row in devices(tx) if row.facts.type != "cpu")
    if is_new:
        print("no results yet: `vkbench run --mode performance` makes some", file=sys.stderr)
    host = settings().host
    here = [row for row in newest if row.host == host]
    if newest and not here:
        hosts = ", ".join(sorted({row.host for row in newest}))
        print(f"no results of this host ({host}), only of {hosts}", file=sys.stderr)
    rows = [
        {"plan": target.plan, "target": target.name, "wanted": target.wanted, **vars(one)}
        for target, one in found(Evidence(results=here, gpus=gpus))
    ]
    table = Table(columns=TARGETS, rows=rows)
    if markdown:
        print(markdown_table(table), end="")
    else:
        show(table, output)
    counts = Counter(str(row["standing"]) for row in rows)
    print(", ".join(f"{count} {standing}" for standing, count in counts.items()), file=sys.stderr)


def _plain(text: str) -> str:
    """Markdown as a terminal shows it: rendered, the width of the screen."""
    from io import StringIO

    from rich.console import Console
    from rich.markdown import Markdown

    lines = StringIO()
    Console(file=lines).print(Markdown(text))
    return lines.getvalue()
