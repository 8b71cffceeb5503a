"""`vkbench token`: who may submit, cancel, acknowledge and schedule through the pages."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from vkbench.words import names
from vkbench_cli.groups import CommandGroup
from vkbench_cli.options.records import Store
from vkbench_cli.options.spreading import spread
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import say, tell
from vkbench_cli.store import open_database, reading
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

if TYPE_CHECKING:
    from vkbench_db.upkeep.tokens import Token

DAY = 86_400.0
COLUMNS = (
    Column(key="name", heading="token", rank=Rank.KEY),
    Column(key="state", heading="state", rank=Rank.KEY),
    Column(key="scopes", heading="may", rank=Rank.KEY),
    Column(key="prefix", heading="begins"),
    Column(key="created_at", heading="made", kind=ValueKind.TIME, rank=Rank.MINOR),
    Column(key="expires_at", heading="expires", kind=ValueKind.TIME),
    Column(key="revoked_at", heading="revoked", kind=ValueKind.TIME, rank=Rank.MINOR),
    Column(key="last_used_at", heading="last used", kind=ValueKind.TIME),
)
NOTHING_YET = "no token yet: `vkbench token add NAME --scope triage` makes one"

app = Typer(cls=CommandGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True)


@app.callback()
def group() -> None:
    """Make and revoke tokens, which permit writing by the pages."""


@app.command()
@spread
def add(
    *,
    name: Annotated[
        str, Argument(metavar="NAME", help="Who uses it: what it does is recorded by this name.")
    ],
    scope: Annotated[
        list[str],
        Option(
            metavar="SCOPE",
            help=(
                "What it permits; may be repeated. submit: submit and cancel runs; triage: "
                "acknowledge and close regressions; schedule: add schedules; read: nothing else."
            ),
        ),
    ],
    days: Annotated[
        float | None,
        Option(metavar="N", min=0.001, max=36_500.0, help="It expires after N days."),
    ] = None,
    store: Store,
) -> None:
    """Make a token and print its secret, this once.

    The secret is stored nowhere; what the token does is recorded by its name.

    \b
    vkbench token add ann --scope triage --scope submit --days 90
    """
    from vkbench_db.upkeep import tokens

    scopes = [tokens.Scope(names.pick(word, list(tokens.Scope), "scope")) for word in scope]
    now = time.time()
    expires = now + days * DAY if days else None
    with open_database(store.settings()) as database, database.transaction() as tx:
        secret = tokens.add(tx, name=name, scopes=scopes, now=now, expires_at=expires)
    say(secret)
    tell(f"token {name} is made; keep what is printed: only its hash is stored")


@app.command()
@spread
def ls(*, store: Store, output: Output) -> None:
    """List the tokens, the newest first, without their secrets."""
    from vkbench_db.upkeep import tokens

    now = time.time()
    with reading(store.settings()) as tx:
        rows = [_row(token, now) for token in tokens.list_tokens(tx)]
    show(Table(columns=COLUMNS, rows=rows, nothing=NOTHING_YET), output)


@app.command()
@spread
def revoke(
    *,
    token: Annotated[
        str, Argument(metavar="TOKEN", help="A token: its name, or how its secret begins.")
    ],
    store: Store,
) -> None:
    """End a token: it permits nothing from now on.

    What it did stays recorded by its name.
    """
    from vkbench_db.upkeep import tokens

    with open_database(store.settings()) as database, database.transaction() as tx:
        revoked = tokens.revoke(tx, token, time.time())
    say(f"token {revoked.name} ({revoked.prefix}...) is revoked")


def _row(token: Token, now: float) -> dict[str, Cell]:
    return {**vars(token), "state": token.state(now)}
