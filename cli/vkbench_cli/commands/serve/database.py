"""`vkbench db`: the schema of the database, a role that reads, and the end of what is old."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from vkbench.errors import UsageError
from vkbench_cli.groups import CommandGroup
from vkbench_cli.options.ages import seconds_of_age
from vkbench_cli.options.records import Store
from vkbench_cli.options.spreading import spread
from vkbench_cli.patience import Wait, patiently
from vkbench_cli.show.telling import Elapsed, hand_over, say
from vkbench_cli.store import open_database

app = Typer(cls=CommandGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True)


@app.callback()
def group() -> None:
    """Create or upgrade the database, and look after it."""


@app.command()
@spread
def upgrade(
    *,
    pages: Annotated[
        Path | None,
        Option(metavar="FILE", help="File with the URL by which the pages use the database."),
    ] = None,
    reader: Annotated[
        Path | None,
        Option(metavar="FILE", help="File with the URL by which people query it."),
    ] = None,
    store: Store,
    wait: Wait = 0.0,
) -> None:
    """Create the database, or upgrade its schema to this version's.

    Stored results are kept. Running it again changes nothing. On PostgreSQL a superuser can make
    the roles of --pages and --reader too, or renew their rights, as `vkbench db pages-role` and
    `vkbench db reader-role` say.
    """
    from vkbench_db.database import SCHEMA, parse_url
    from vkbench_db.database import upgrade as bring_up

    url = store.settings().database_url()
    with Elapsed("upgrading the database"):
        patiently(lambda: bring_up(url), wait)
    say(f"{parse_url(url).render_as_string(hide_password=True)} is at schema {SCHEMA}")
    if pages or reader:
        from vkbench_db.upkeep.roles import give_roles

        give_roles(url, pages=_url_in(pages), reader=_url_in(reader))
        say("the roles have their rights")


def _url_in(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from None


@app.command()
@spread
def reader_role(
    *, name: Annotated[str, Argument(metavar="NAME", help="Name of the role to make.")]
) -> None:
    """Print SQL that makes a PostgreSQL role for people who query.

    For `vkbench query`, and for the page /query (VKBENCH_QUERY_DATABASE). The role reads the
    documented views alone. It calls no function that ends other sessions, takes locks, or reaches
    files and other databases, and its temporary files are bounded. A superuser runs the SQL once:

    \b
    vkbench db reader-role reader | sudo -u postgres psql bench
    """
    from vkbench_db.upkeep.roles import reader_role_sql

    hand_over(reader_role_sql(name))


@app.command()
@spread
def pages_role(
    *, name: Annotated[str, Argument(metavar="NAME", help="Name of the role to make.")]
) -> None:
    """Print SQL that makes a PostgreSQL role for `vkbench web`.

    The role reads all tables. It writes runs, schedules and what people do with regressions; it can
    hand in no bundle, no result and no token. Run the SQL again after `vkbench db upgrade`:

    \b
    vkbench db pages-role pages | sudo -u postgres psql bench
    """
    from vkbench_db.upkeep.roles import pages_role_sql

    hand_over(pages_role_sql(name))


@app.command()
@spread
def prune(
    *,
    older_than: Annotated[
        str, Option("--older-than", metavar="AGE", help="Age, such as 180d, 26w or 1y.")
    ],
    samples: Annotated[bool, Option("--samples", help="Remove samples of timings.")] = False,
    bundles: Annotated[
        bool, Option("--bundles", help="Remove the code of bundles that nothing uses.")
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would go.")] = False,
    store: Store,
) -> None:
    """Remove old samples of timings and old, unused bundles.

    Results with their medians and bounds, verdicts, series and regressions stay. So does all that a
    baseline, a schedule, an unsettled change, a running bisection or an unfinished job needs.
    Without --samples or --bundles both go. Services may run meanwhile.

    \b
    vkbench db prune --older-than 180d --dry-run
    """
    from vkbench_db.upkeep.prune import prune_bundles, prune_samples

    before = time.time() - seconds_of_age(older_than)
    both = samples == bundles
    done = "would be removed" if dry_run else "removed"
    with open_database(store.settings()) as database:
        for what, remove, is_chosen in (
            ("timings' samples", prune_samples, samples),
            ("bundles", prune_bundles, bundles),
        ):
            if is_chosen or both:
                with Elapsed(f"looking for {what}"):
                    removed = remove(database, before, is_trial=dry_run)
                say(f"{removed.items:,} {what}, {removed.bytes / 1e6:,.1f} MB, {done}")
        if not dry_run:
            say(_ADVICE[database.engine.dialect.name])


_ADVICE = {
    "sqlite": "the file keeps its size and reuses the room; `VACUUM` by sqlite3 makes it smaller",
    "postgresql": "the server reuses the room; `VACUUM FULL measurement, blob` gives it back",
}
