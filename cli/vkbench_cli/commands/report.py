"""`vkbench report`: what was found, as text for people who were not there."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option, Typer

from vkbench_cli.options import Store, spread

app = Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)


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
    from vkbench_cli.store import opened
    from vkbench_db import news, queries
    from vkbench_scheduler import summaries

    with opened(store.settings()) as database, database.reading() as tx:
        found = queries.find_run(tx, asked)
        told = news.of_run(tx, found.id, found.label)
    if not only_on_change or summaries.is_eventful(told):
        text = summaries.of_run(told)
        print(text if markdown else _plain(text), end="")


def _plain(text: str) -> str:
    """Markdown as a terminal shows it: rendered, the width of the screen."""
    from io import StringIO

    from rich.console import Console
    from rich.markdown import Markdown

    lines = StringIO()
    Console(file=lines).print(Markdown(text))
    return lines.getvalue()
