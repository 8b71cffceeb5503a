"""`vkbench key`: makes the keys that sign messages between workers and schedulers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from vkbench.messages.keys import new_keys
from vkbench_cli.groups import CommandGroup
from vkbench_cli.options.spreading import spread
from vkbench_cli.show.telling import say, tell

app = Typer(cls=CommandGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True)


@app.callback()
def group() -> None:
    """Make the keys that sign messages between workers and schedulers."""


@app.command("new")
@spread
def write_keys(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="Folder to write the keys to.")],
    *,
    add: Annotated[
        bool, Option("--add", help="Add a key to each file: it verifies, and the first signs.")
    ] = False,
) -> None:
    """Make a key for workers and one for schedulers, in two files.

    Copy the folder to each worker and scheduler, and set VKBENCH_KEYS to it there. In a file each
    line is a key: the first one signs, and each verifies.
    """
    for path in new_keys(folder, add=add):
        say(str(path))
    tell(f"copy {folder} to each worker and scheduler, and set VKBENCH_KEYS to it there")
