"""`vkbench submit`: work for the devices of the fleet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vkbench.errors import EXIT_INTERRUPTED, UsageError
from vkbench.process.user import user_name
from vkbench.run import RunWords
from vkbench.words.units import count_of
from vkbench_cli.options.declarations import find_declarations, for_each_declaration
from vkbench_cli.options.records import AllRows, Effort, Selecting, Store
from vkbench_cli.show.printing import Output
from vkbench_cli.show.telling import say, tell
from vkbench_cli.store import open_database

if TYPE_CHECKING:
    from vkbench_db.database import Database
    from vkbench_scheduler.planning.submit import Planner, Submitted
    from vkbench_scheduler.planning.sweeps import Sweep


def submit(
    *,
    selecting: Selecting,
    effort: Effort,
    wait: Annotated[
        bool, Option("--wait", help="Wait until the run ends, then print its results.")
    ] = False,
    timeout: Annotated[
        float | None,
        Option(
            metavar="S",
            min=0.0,
            help="With --wait: stop waiting after S seconds; the run continues.",
        ),
    ] = None,
    driver: Annotated[
        str,
        Option(
            metavar="NAME",
            help="Run through this driver: a copy of yours, or one that hosts have; '*': each one.",
        ),
    ] = "",
    all_rows: AllRows = False,
    key: Annotated[
        str,
        Option(
            metavar="TEXT",
            help="Idempotency key: submitting again with the same key returns the first run.",
        ),
    ] = "",
    store: Store,
    output: Output,
) -> int:
    """Queue cases for the devices of the fleet.

    A worker registers each device that it serves; without --device the run goes to all of them.
    Prints the number of the run, and a warning if no scheduler or no worker is running. With
    --wait, Ctrl-C stops the waiting; the run continues, and `vkbench watch RUN` comes back to it.

    \b
    vkbench submit --suite quick --device 'NVIDIA*' --wait
    vkbench submit --suite spine --driver mesa-26.1

    Exit codes with --wait: 0 all passed, 3 a wrong result, 4 a failed job, 5 --timeout passed,
    7 nothing ran, 130 interrupted.
    """
    from vkbench_cli.show.report import conclude_all
    from vkbench_cli.show.waiting import wait_for, warn

    files = find_declarations(selecting.kernel_file)
    if key and len(files) > 1:
        raise UsageError("--key is of one run, and each declaration has a run of its own")
    with open_database(store.settings()) as database:
        try:
            submitted = _submit_each(database, files, selecting, effort, key, driver)
        except KeyboardInterrupt:
            tell("interrupted before all jobs were stored: none of them will run")
            return EXIT_INTERRUPTED
        incomplete = UsageError.exit_code if len(submitted) < len(files) else 0
        if not wait:
            for made in submitted:
                announce(database, made)
            return incomplete
        for made in submitted:
            warn(database, f"run {made.run.id}", run=made.run.id)
            try:
                wait_for(database, made.run.id, timeout)
            except KeyboardInterrupt:
                tell(how_to_come_back(made.run.id, store))
                return EXIT_INTERRUPTED
        runs = [made.run.id for made in submitted]
        return conclude_all(database, runs, output, all_rows=all_rows) or incomplete


def _submit_each(
    database: Database,
    files: Sequence[Path],
    selecting: Selecting,
    effort: Effort,
    key: str,
    driver: str,
) -> list[Submitted]:
    """A run for the fleet, or one for each declaration of several."""
    submit_one = partial(submit_selection, database, key=key, driver=driver)
    if not files:
        return [submit_one(selecting, effort)]
    if len(files) == 1:
        return [submit_one(replace(selecting, kernel_file=[*files]), effort)]
    return for_each_declaration(files, lambda file: submit_one(*selecting.of_file(file, effort)))


def how_to_come_back(run: int, store: Store) -> str:
    """What to type after the waiting for a run was stopped."""
    where = f" --database {store.database}" if store.database else ""
    return f"run {run} continues; `vkbench watch {run}{where}` comes back to it"


def announce(database: Database, made: Submitted) -> None:
    """Print the number of a run, and on stderr what keeps it waiting."""
    from vkbench_cli.show.waiting import warn

    say(str(made.run.id))
    tell(f"run {made.run.id}: {count_of(made.jobs, 'job')} submitted")
    warn(database, f"run {made.run.id}", run=made.run.id)


def submit_selection(
    database: Database,
    selecting: Selecting,
    effort: Effort,
    *,
    key: str = "",
    sweep: Sweep | None = None,
    driver: str = "",
) -> Submitted:
    """A run for the fleet, stored with all its jobs."""
    from vkbench_cli.builds import build_for_fleet, choose_cases, give_to_fleet
    from vkbench_cli.bundles import bundle_chosen
    from vkbench_cli.fleet_drivers import choose_through, find_fleet_drivers, give_copy
    from vkbench_db.ask import queries
    from vkbench_db.ask.devices.names import served_keys
    from vkbench_scheduler.planning import sweeps
    from vkbench_scheduler.planning.plan import plan
    from vkbench_scheduler.planning.submit import NO_DRIVER, plan_through
    from vkbench_scheduler.planning.submit import submit as store_run

    if driver and (selecting.build or selecting.peer):
        raise UsageError(NO_DRIVER)
    build = build_for_fleet(database, selecting.build, selecting.bundle)
    if sweep and build:
        raise UsageError("--build has no configurations to try: leave it out")
    with database.reading() as tx:
        known = [row.facts for row in queries.devices(tx)]
        meant = served_keys(tx, selecting.device)
        bundle = bundle_chosen(tx, selecting.build_own_kernel(effort.repeat), selecting.bundle)
    selection = replace(selecting.selection(effort, bundle), devices=tuple(meant))
    if sweep:
        return sweeps.submit(database, selection, known, sweep, bundle=bundle, user=user_name())
    selection = choose_cases(selection, build, is_open=not selecting.chooses_cases())
    give_to_fleet(filter(None, [build]))
    planner: Planner = plan
    if driver:
        drivers = find_fleet_drivers(database, driver, meant)
        give_copy(drivers)
        selection = choose_through(selection, drivers)
        planner = plan_through(drivers.devices)
    return store_run(
        database,
        selection,
        known,
        bundle=bundle,
        build=build,
        words=RunWords(user=user_name(), label=effort.label, idempotency_key=key or None),
        planner=planner,
    )
