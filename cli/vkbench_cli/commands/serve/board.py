"""`vkbench board`: a site of many labs' results, which needs no server but one of files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from vkbench.errors import UsageError
from vkbench.process import system
from vkbench.words.units import count_of, span
from vkbench_cli.groups import CommandGroup
from vkbench_cli.show.telling import say, tell

app = Typer(cls=CommandGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True)


@app.callback()
def group() -> None:
    """Build a site of many labs' exports, which needs no server."""


@app.command()
def build(
    exports: Annotated[
        Path,
        Argument(metavar="EXPORTS", help="Folder of files that `vkbench export` wrote."),
    ],
    out: Annotated[Path, Argument(metavar="OUT", help="Folder to write the pages to.")],
    title: Annotated[
        str, Option(metavar="TITLE", help="What the board is called on its pages.")
    ] = "vkbench board",
    state: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Keep what was read of the exports here, so that the next build reads new ones "
            "alone; beside OUT by default.",
        ),
    ] = None,
) -> None:
    """Build a board: pages and badges of each device and case, by many labs' exports.

    Exports are the files .jsonl, .jsonl.gz and .jsonl.xz of a folder and those below. One that
    cannot be read is left out, in a line of its own. Signed exports show their key.

    \b
    vkbench export last -o exports/ann.jsonl.xz --sign ~/.ssh/id_ed25519
    vkbench board build exports site
    """
    from vkbench_web.board.building import build_board
    from vkbench_web.board.site import Site

    if not exports.is_dir():
        raise UsageError(f"{exports} is not a folder")
    if exports.resolve() in (out.resolve(), *out.resolve().parents):
        raise UsageError(f"{out} is inside of {exports}: give a folder elsewhere")
    begin = time.monotonic()
    kept = state or out.with_name(f"{out.name}.board.sqlite")
    site = Site(folder=out, title=title)
    built = build_board(exports, site, kept, tell, system.usable_processors())
    say(
        f"{out}: {count_of(built.read, 'file')} read, {built.known} known, {built.removed} gone, "
        f"{built.faults} left out; {count_of(built.pages, 'page')} written "
        f"in {span(time.monotonic() - begin)}"
    )
