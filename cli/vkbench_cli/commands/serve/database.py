"""`vkbench db`: the database's schema."""

from __future__ import annotations

from typer import Typer

from vkbench_cli.groups import CommandGroup
from vkbench_cli.options import Store, spread
from vkbench_cli.patience import Wait, patiently

app = Typer(cls=CommandGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True)


@app.callback()
def group() -> None:
    """Create or upgrade the database."""


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
