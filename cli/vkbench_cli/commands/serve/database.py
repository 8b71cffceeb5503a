"""`vkbench db`: the database's schema, and a role that reads."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Typer

from vkbench_cli.groups import CommandGroup
from vkbench_cli.options import Store, spread
from vkbench_cli.patience import Wait, patiently

app = Typer(cls=CommandGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True)


@app.callback()
def group() -> None:
    """Create or upgrade the database, and look after it."""


@app.command()
@spread
def upgrade(*, store: Store, wait: Wait = 0.0) -> None:
    """Create the database, or upgrade its schema to this version's.

    Stored results are kept. Running it again changes nothing.
    """
    from vkbench_db.database import SCHEMA, parse_url
    from vkbench_db.database import upgrade as bring_up

    url = store.settings().database_url()
    patiently(lambda: bring_up(url), wait)
    print(f"{parse_url(url).render_as_string(hide_password=True)} is at schema {SCHEMA}")


@app.command()
@spread
def reader_role(
    *, name: Annotated[str, Argument(metavar="NAME", help="Name of the role to make.")]
) -> None:
    """Print SQL that makes a PostgreSQL role for `vkbench query`.

    The role reads the documented views alone. It calls no function that ends other sessions, takes
    locks, or reaches files and other databases. A superuser runs the SQL once:

    \b
    vkbench db reader-role reader | sudo -u postgres psql bench
    """
    from vkbench_db.upkeep.reader_role import reader_role_sql

    print(reader_role_sql(name), end="")
