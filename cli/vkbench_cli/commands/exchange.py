"""`vkbench export` and `vkbench import`: results of hosts that no network joins."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from vkbench_cli.options import Store


def export(
    *,
    run: Annotated[str, Argument(metavar="RUN", help="A run: its number, label, UUID or last.")],
    output: Annotated[Path, Option("--output", "-o", metavar="FILE", help="File to write.")],
    store: Store,
) -> None:
    """Write a run's results to a file that `import` reads."""
    from vkbench_cli.exporting import export_run
    from vkbench_cli.store import opened, reading
    from vkbench_db.queries import find_run

    with reading(store.settings()) as tx:
        found = find_run(tx, run)
    with opened(store.settings()) as database:
        export_run(database, found.id, output)
    print(f"run {found.id} ({found.progress.total} jobs) -> {output}", file=sys.stderr)


def import_(
    *,
    file: Annotated[Path, Argument(metavar="FILE", help="What --export or `export` wrote.")],
    store: Store,
) -> None:
    """Read results that another host exported.

    Reading a file again changes nothing. The database is made if there is none. New results are
    held against what was there, and against each other: `vkbench regressions ls` has the outcome.
    """
    from vkbench_cli.exporting import import_file
    from vkbench_cli.report import UNSCREENED
    from vkbench_db.database import Database
    from vkbench_db.detection import detect

    with Database.open(store.settings().database_url(), create=True) as database:
        found = import_file(database, file)
        detected = detect(database, time.time(), all_at_once=True)
    runs = ", ".join(map(str, found.runs))
    print(
        f"run {runs}: {found.new} jobs new, {found.updated} went on, {found.known} known; "
        f"{found.attempts} attempts new"
    )
    if detected.opened:
        print(f"new in `vkbench regressions ls`: {len(detected.opened)}")
    if detected.is_unscreened:
        print(UNSCREENED, file=sys.stderr)
