"""`vkbench baseline`: names for what others are compared with."""

from __future__ import annotations

import time
from typing import Annotated

from typer import Argument, Option, Typer

from vkbench.errors import UsageError
from vkbench_cli.layout import Rank
from vkbench_cli.options import Output, Store, spread
from vkbench_cli.printing import Column, Table, show
from vkbench_cli.printing import Kind as Shown

app = Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)

COLUMNS = (
    Column(key="name", heading="name", rank=Rank.KEY),
    Column(key="kind", heading="kind"),
    Column(key="value", heading="what", rank=Rank.KEY),
    Column(key="user", heading="by", rank=Rank.MINOR),
    Column(key="created_at", heading="pinned", kind=Shown.TIME),
)
NOTHING_YET = "no baseline yet: `vkbench baseline set NAME --run last` pins one"

Name = Annotated[str, Argument(metavar="NAME", help="What it is called, or is to be.")]


@app.callback()
def group() -> None:
    """Pin what others are compared with."""


@app.command(name="set")
@spread
def set_(
    *,
    name: Name,
    run: Annotated[
        str, Option(metavar="RUN", help="Results of a run: number, label, UUID or last.")
    ] = "",
    bundle: Annotated[str, Option(metavar="SHA", help="Results of these compiled kernels.")] = "",
    date: Annotated[
        str, Option(metavar="DATE", help="The latest results up to a day, or a moment, in UTC.")
    ] = "",
    store: Store,
) -> None:
    """Pin a run, a bundle or a date; a name that is taken means the new one from now on.

    New series are held against the newest baseline that knows them.

    \b
    vkbench baseline set release-1.2 --run last
    vkbench compare release-1.2 last
    """
    from vkbench_cli.store import opened, user_name
    from vkbench_db.baselines import pin
    from vkbench_db.references import Kind

    asked = {Kind.RUN: run, Kind.BUNDLE: bundle, Kind.DATE: date}
    given = {kind: value for kind, value in asked.items() if value}
    if len(given) != 1:
        raise UsageError("a baseline is one of --run RUN, --bundle SHA and --date DATE")
    [(kind, value)] = given.items()
    with opened(store.settings()) as database, database.transaction() as tx:
        pinned = pin(tx, name, kind, value, time.time(), user_name())
    print(f"{pinned.name} is {pinned.kind} {pinned.value}")


@app.command()
@spread
def ls(*, store: Store, output: Output) -> None:
    """List the baselines, the newest first."""
    from vkbench_cli.store import reading
    from vkbench_db.baselines import baselines

    with reading(store.settings()) as tx:
        rows = [vars(baseline) for baseline in baselines(tx)]
    show(Table(columns=COLUMNS, rows=rows, nothing=NOTHING_YET), output)


@app.command()
@spread
def rm(*, name: Name, store: Store) -> None:
    """Forget a baseline; its results stay."""
    from vkbench_cli.store import opened
    from vkbench_db.baselines import unpin

    with opened(store.settings()) as database, database.transaction() as tx:
        unpin(tx, name)
    print(f"{name} is no baseline any more")
