"""`vkbench report`: what the results add up to."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Annotated

from typer import Option, Typer

from vkbench.errors import UsageError
from vkbench.job import Mode
from vkbench.settings import settings
from vkbench_cli.options import Devices, Output, Store, spread
from vkbench_cli.printing import Column, Kind, Table, markdown_table, show

app = Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)

COLUMNS = (
    Column(key="plan", heading="plan"),
    Column(key="target", heading="target"),
    Column(key="wanted", heading="wanted"),
    Column(key="standing", heading="is"),
    Column(key="measured", heading="measured here"),
    Column(key="value", heading="value", kind=Kind.VALUE, hidden=True),
    Column(key="how", heading="how, or why not"),
)


@app.callback()
def group() -> None:
    """Say what the results add up to."""


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
    """Hold the success metrics of vkbench's plans against what was measured here.

    Our times are of the newest results of this host's devices, numpy's are measured now: about half
    a minute. Missed and unmeasurable ones are no error.

    \b
    vkbench report targets --device H200 --markdown
    """
    if output.json + output.csv + markdown > 1:
        raise UsageError("only one of --json, --csv and --markdown can be printed")
    from vkbench_cli.store import opened
    from vkbench_cli.targets import found
    from vkbench_db.queries import results

    ours = [Mode.CORRECTNESS, Mode.PERFORMANCE]
    with opened(store.settings()) as database, database.reading() as tx:
        newest = results(tx, devices=device, modes=ours, latest=True, limit=None)
    host = settings().host
    here = [row for row in newest if row.host == host]
    if newest and not here:
        hosts = ", ".join(sorted({row.host for row in newest}))
        print(f"no results of this host ({host}), only of {hosts}", file=sys.stderr)
    rows = [
        {"plan": target.plan, "target": target.name, "wanted": target.wanted, **vars(one)}
        for target, one in found(here)
    ]
    table = Table(columns=COLUMNS, rows=rows)
    if markdown:
        print(markdown_table(table), end="")
    else:
        show(table, output)
    counts = Counter(str(row["standing"]) for row in rows)
    print(", ".join(f"{count} {standing}" for standing, count in counts.items()), file=sys.stderr)
