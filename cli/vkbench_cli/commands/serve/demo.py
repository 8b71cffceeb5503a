"""`vkbench demo`: the pages with a lab's results in them, for those who have no GPU at hand."""

from __future__ import annotations

import time
import webbrowser
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from typer import Option

from vkbench.errors import UsageError
from vkbench.settings import Settings, settings
from vkbench_cli.commands.serve.web import pages_at
from vkbench_cli.show.progress import CountedProgress
from vkbench_cli.show.telling import tell

PORT = 8901  # beside `vkbench web`
FILE = "demonstration.db"  # in the data folder


def demo(
    *,
    port: Annotated[
        int, Option(metavar="N", min=0, max=65535, help="Port to listen at; 0 takes a free one.")
    ] = PORT,
    browser: Annotated[
        bool, Option("--browser/--no-browser", help="Open the pages in a browser.")
    ] = True,
    serve: Annotated[
        bool, Option("--serve/--no-serve", help="Serve the pages once the file is made.")
    ] = True,
    database: Annotated[
        str, Option(metavar="FILE", help="Make this SQLite file (default: in the data folder).")
    ] = "",
    until: Annotated[
        datetime | None,
        Option(
            metavar="DATE",
            formats=["%Y-%m-%d"],
            help="Let the last night be the one before this day (default: the last one).",
        ),
    ] = None,
    anew: Annotated[
        bool, Option("--anew", help="Make the demonstration again if the file is there.")
    ] = False,
) -> None:
    """Show vkbench with the made-up results of a lab: no GPU is needed.

    This fills a SQLite file with sixty nights of a lab with five devices, made up from recorded
    results of an NVIDIA H200, and shows its pages. Kernels and a driver became slower, faster or
    wrong there. All commands and pages say that it is a demonstration, and no other database is
    touched.
    """
    from vkbench_local.demo.filling import fill, last_midnight
    from vkbench_local.demo.place import make

    path = _path(database)
    ending = until.replace(tzinfo=UTC) if until else last_midnight(time.time())
    with CountedProgress("nights", 1) as progress:
        is_new = make(path, lambda made: fill(made, ending, watch=progress.count), anew=anew)
    what = "made" if is_new else "there already: --anew makes it again"
    tell(f"demonstration {what}: {path}")
    tell(f"try `vkbench regressions ls --database {path}`")
    if serve:
        _show(replace(settings(), database=f"sqlite:///{path}"), port, browser)


def _show(settings: Settings, port: int, browser: bool) -> None:
    def open_page(url: str) -> None:
        if browser:
            webbrowser.open(url)

    pages_at(settings, "127.0.0.1", port, began=open_page)


def _path(database: str) -> Path:
    if "://" in database:
        raise UsageError(f"a demonstration is a SQLite file, not {database}")
    return Path(database).expanduser().resolve() if database else settings().data / FILE
