"""`vkbench baseline`: names for results that later ones are compared with."""

from __future__ import annotations

import time
from typing import Annotated

from typer import Argument, Option, Typer

from vkbench.errors import UsageError
from vkbench.process.user import user_name
from vkbench_cli import completion
from vkbench_cli.groups import CommandGroup
from vkbench_cli.options.records import RUN_HELP, Store
from vkbench_cli.options.spreading import spread
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import say
from vkbench_cli.store import open_database, reading
from vkbench_tables.table import Column, Rank, Table
from vkbench_tables.table import ValueKind as Shown

app = Typer(cls=CommandGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True)

COLUMNS = (
    Column(key="name", heading="name", rank=Rank.KEY),
    Column(key="kind", heading="kind"),
    Column(key="value", heading="what", rank=Rank.KEY),
    Column(key="user", heading="by", rank=Rank.MINOR),
    Column(key="created_at", heading="pinned", kind=Shown.TIME),
)
NOTHING_YET = "no baseline yet: `vkbench baseline set NAME --run last` pins one"

Name = Annotated[str, Argument(metavar="NAME", help="Name of the baseline.")]


@app.callback()
def group() -> None:
    """Name results that later ones are compared with."""


@app.command(name="set")
@spread
def set_(
    *,
    name: Name,
    run: Annotated[
        str,
        Option(metavar="RUN", help=f"The results of a run. {RUN_HELP}"),
    ] = "",
    bundle: Annotated[str, Option(metavar="SHA", help="The results of this bundle.")] = "",
    build: Annotated[
        str,
        Option(
            metavar="NAME|SHA",
            help="The results of this build of a program.",
            autocompletion=completion.builds,
        ),
    ] = "",
    driver: Annotated[
        str,
        Option(
            metavar="NAME|VERSION",
            help="The results through this driver: its name, version or hash.",
        ),
    ] = "",
    date: Annotated[
        str, Option(metavar="DATE", help="The latest results up to this day or time (UTC).")
    ] = "",
    store: Store,
) -> None:
    """Name a run, a bundle, a build, a driver or a date as a baseline; an existing name is moved.

    A new series is compared with the newest baseline that has results of it.

    \b
    vkbench baseline set release-1.2 --run last
    vkbench compare release-1.2 last
    """
    from vkbench_detection.compare.baselines import pin
    from vkbench_detection.compare.references import ReferenceKind

    options = {
        ReferenceKind.RUN: run,
        ReferenceKind.BUNDLE: bundle,
        ReferenceKind.BUILD: build,
        ReferenceKind.DRIVER: driver,
        ReferenceKind.DATE: date,
    }
    given = {kind: value for kind, value in options.items() if value}
    if len(given) != 1:
        raise UsageError(
            "give one of --run RUN, --bundle SHA, --build NAME, --driver NAME and --date DATE"
        )
    [(kind, value)] = given.items()
    with open_database(store.settings()) as database, database.transaction() as tx:
        pinned = pin(tx, name, kind, value, time.time(), user_name())
    say(f"{pinned.name} is {pinned.kind} {pinned.value}")


@app.command()
@spread
def ls(*, store: Store, output: Output) -> None:
    """List the baselines, the newest first."""
    from vkbench_detection.compare.baselines import baselines

    with reading(store.settings()) as tx:
        rows = [vars(baseline) for baseline in baselines(tx)]
    show(Table(columns=COLUMNS, rows=rows, nothing=NOTHING_YET), output)


@app.command()
@spread
def rm(*, name: Name, store: Store) -> None:
    """Delete a baseline; its results are kept."""
    from vkbench_detection.compare.baselines import unpin

    with open_database(store.settings()) as database, database.transaction() as tx:
        unpin(tx, name)
    say(f"baseline {name} is deleted")
