"""`vkbench export` and `vkbench import`: results between hosts without a network."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from vkbench_cli.options import RUN_HELP, Store
from vkbench_cli.show.telling import Elapsed, say, tell
from vkbench_cli.store import opened, reading


def export(
    *,
    run: Annotated[str, Argument(metavar="RUN", help=RUN_HELP)],
    output: Annotated[
        Path, Option("--output", "-o", metavar="FILE", help="Write the results to this file.")
    ],
    store: Store,
) -> None:
    """Export the results of a run to a file that `import` reads."""
    from vkbench_cli.exporting import export_run
    from vkbench_db.ask.queries import find_run

    with reading(store.settings()) as tx:
        found = find_run(tx, run)
    with opened(store.settings()) as database:
        export_run(database, found.id, output)
    tell(f"run {found.id} ({found.progress.total} jobs) -> {output}")


def import_(
    *,
    file: Annotated[
        Path,
        Argument(
            metavar="FILE", help="File that `vkbench export` or `vkbench run --export` wrote."
        ),
    ],
    store: Store,
) -> None:
    """Import results that another host exported.

    Importing a file again changes nothing. The database is created if it does not exist. New
    results are compared with the stored ones and with each other; `vkbench regressions ls` lists
    what was found.
    """
    from vkbench_cli.exporting import import_file
    from vkbench_cli.show.report import UNSCREENED
    from vkbench_db.database import Database
    from vkbench_detection.steps import detect

    with Database.open(store.settings().database_url(), create=True) as database:
        found = import_file(database, file)
        with Elapsed("comparing the new results with earlier ones"):
            detected = detect(database, time.time(), all_at_once=True)
    runs = ", ".join(map(str, found.runs))
    say(
        f"run {runs}: {found.new} jobs new, {found.updated} went on, {found.known} known; "
        f"{found.attempts} attempts new"
    )
    if detected.opened:
        say(f"new in `vkbench regressions ls`: {len(detected.opened)}")
    if detected.is_unscreened:
        tell(UNSCREENED)
