"""`vkbench run`: kernels checked and timed on this machine, with no server."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vkbench.errors import EXIT_INTERRUPTED, NothingToDo, ServiceUnreachable, UsageError
from vkbench.job import ACTIVE, JobState
from vkbench.process import log
from vkbench.programs.build import SHA_SHOWN
from vkbench_cli.drivers import find_driver_routes, kept_drivers, store_host_devices
from vkbench_cli.files import check_writable
from vkbench_cli.machine import open_alone
from vkbench_cli.options.declarations import find_declarations, for_each_declaration
from vkbench_cli.options.effort import Effort
from vkbench_cli.options.records import RUN_HELP, AllRows, Selecting, Sign, Store
from vkbench_cli.show.printing import Output
from vkbench_cli.show.telling import Doing, tell
from vkbench_cli.store import refuse_imported

if TYPE_CHECKING:
    from vkbench.device import DeviceFacts
    from vkbench.settings import Settings
    from vkbench_db.ask.queries import RunRow
    from vkbench_db.database import Database
    from vkbench_scheduler.planning.sweeps import Sweep
    from vkbench_worker.owner.routes import Route


BEGINNING = "reading what is asked for"
LOADING = "loading the driver"


def run(
    *,
    selecting: Selecting,
    effort: Effort,
    resume: Annotated[
        str,
        Option(
            metavar="RUN",
            help=f"Continue a run that was stopped. {RUN_HELP}",
        ),
    ] = "",
    export: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help=(
                "At the end, or when it is stopped, write the results to FILE, which "
                "`vkbench import` reads."
            ),
        ),
    ] = None,
    sign: Sign = None,
    stop_after: Annotated[
        float | None,
        Option(
            metavar="S",
            min=0.0,
            help="Begin no job after S seconds; --resume does the jobs that are left.",
        ),
    ] = None,
    driver: Annotated[
        str,
        Option(
            metavar="NAME",
            help="Run through this driver, which `vkbench driver add` added: its name or hash.",
        ),
    ] = "",
    all_rows: AllRows = False,
    profile: Annotated[
        bool, Option("--profile", help="Show which kernels the time of a --model goes to.")
    ] = False,
    store: Store,
    output: Output,
) -> int:
    """Check and time kernels on this machine, with no server.

    Results are stored in a SQLite file. Without options it runs the quick suite on the best device
    of this machine. Ctrl-C stops after the current job; --resume continues.

    \b
    vkbench run
    vkbench run --kernel mul_mat_vec --format 'q*' --mode performance
    vkbench run --suite spine --device '*' --export results.jsonl
    vkbench run --suite spine --mode performance --peer torch
    vkbench run --suite spine --driver mesa-26.1
    vkbench run --suite transformer --stop-after 3600
    vkbench run --model llama-3-8b-q4_K_M.gguf --profile

    Exit codes: 0 all that ran passed, 3 a wrong result, 4 a failed job, 7 nothing ran,
    130 interrupted.
    """
    if resume and (driver or selecting != Selecting()):
        raise UsageError(
            "--resume continues a run unchanged: leave out the options that choose cases"
        )
    if driver and (selecting.build or selecting.peer):
        from vkbench_scheduler.planning.submit import NO_DRIVER

        raise UsageError(NO_DRIVER)
    if sign and not export:
        raise UsageError("--sign is of --export: give the file that is to be signed")
    settings = store.settings()
    log.set_up(logging.WARNING)
    if export:
        check_writable(export)
    files = find_declarations(selecting.kernel_file)
    if len(files) > 1:
        if driver or export or stop_after is not None or selecting.peer:
            raise UsageError(
                "--driver, --export, --stop-after and --peer are for one run, and each declaration "
                "has a run of its own: give them a command each"
            )
        with Doing(BEGINNING), open_alone(settings) as database:
            return _run_each(database, files, (selecting, effort), store, output, all_rows=all_rows)
    selecting = replace(selecting, kernel_file=files)
    with Doing(BEGINNING) as doing, open_alone(settings) as database:
        from vkbench_cli.exporting import export_run
        from vkbench_cli.show.model_profile import show_profiles, tell_memory
        from vkbench_cli.show.peers import show_peers
        from vkbench_cli.show.report import conclude, findings, print_counts
        from vkbench_detection.steps import detect
        from vkbench_worker.errors import RunnerFailed

        if resume:
            run_row, devices, routes = _resume_run(database, resume, settings)
        elif driver:
            routes = find_driver_routes(driver, selecting.device, settings)
            run_row, devices = plan_run(database, selecting, effort, settings, routes=routes)
        else:
            routes = []
            run_row, devices = plan_run(database, selecting, effort, settings)
        try:
            ended = work(database, settings, run_row, devices, stop_after, routes, doing)
        except (ServiceUnreachable, RunnerFailed) as error:
            if export:
                export_run(database, run_row.id, export, sign)
            raise type(error)(f"{error}; {how_to_go_on(run_row.id, store)}") from error
        if export:
            export_run(database, run_row.id, export, sign)
        if ended is Ended.INTERRUPTED:
            tell(how_to_go_on(run_row.id, store))
            return EXIT_INTERRUPTED
        detected = detect(database, time.time())
        if profile and (output.json or output.csv):  # programs read one table
            code = print_counts(database, run_row.id)
        else:
            code = conclude(database, run_row.id, output, all_rows=all_rows)
        tell_memory(database, run_row.id)
        if selecting.peer and not (output.json or output.csv):
            with database.reading() as tx:
                show_peers(tx, output, run=run_row.id)
        if profile:
            show_profiles(database, run_row.id, output)
    for line in findings(detected):
        tell(line)
    if ended is Ended.OUT_OF_TIME:
        tell(how_to_go_on(run_row.id, store))
    return code


def _run_each(
    database: Database,
    files: Sequence[Path],
    chosen: tuple[Selecting, Effort],
    store: Store,
    output: Output,
    *,
    all_rows: bool,
) -> int:
    """Run each of several declarations, and show all results as one table."""
    from vkbench_cli.show.report import conclude_all, findings
    from vkbench_detection.steps import detect

    settings, (selecting, effort) = store.settings(), chosen

    def plan_file(file: Path) -> tuple[RunRow, list[DeviceFacts]]:
        return plan_run(database, *selecting.of_file(file, effort), settings)

    planned = for_each_declaration(files, plan_file)
    for run_row, devices in planned:
        if work(database, settings, run_row, devices) is Ended.INTERRUPTED:
            left = [run.id for run, _ in planned if run.id >= run_row.id]
            for number in left:
                tell(how_to_go_on(number, store))
            return EXIT_INTERRUPTED
    detected = detect(database, time.time())
    runs = [run_row.id for run_row, _ in planned]
    code = conclude_all(database, runs, output, all_rows=all_rows)
    for line in findings(detected):
        tell(line)
    return code or (UsageError.exit_code if len(planned) < len(files) else 0)


def plan_run(
    database: Database,
    selecting: Selecting,
    effort: Effort,
    settings: Settings,
    sweep: Sweep | None = None,
    routes: Sequence[Route] = (),
) -> tuple[RunRow, list[DeviceFacts]]:
    """Store a new run with all its jobs; the run, and the devices of this machine to use.

    With routes it is for the devices that these reach through a driver that was added.
    """
    from vkbench_cli.builds import build_chosen
    from vkbench_cli.bundles import bundle_chosen
    from vkbench_db.ask.queries import find_run
    from vkbench_local.executor import store_run
    from vkbench_local.machine import chosen_devices
    from vkbench_local.own_cases import choose_own_cases
    from vkbench_shaders.bundle import packaged

    build = build_chosen(selecting.build, selecting.bundle, settings)
    with database.reading() as tx:
        bundle = bundle_chosen(tx, selecting.build_own_kernel(effort.repeat), selecting.bundle)
    selection = selecting.selection(effort, bundle)
    if build:
        selection = choose_own_cases(
            selection, build, settings, tell, is_open=not selecting.chooses_cases()
        )
    if bundle is None:
        packaged()  # says now, not in every job, that it was never built
    if routes:
        devices = [route.facts for route in routes]
        selection = replace(selection, driver=routes[0].driver.sha)
        store_host_devices(database, routes)
    else:
        Doing.now(LOADING)
        devices = chosen_devices(selecting.device, settings)
    Doing.now("planning the run")
    _refuse_paused(database, devices)
    made = store_run(
        database, selection, devices, bundle=bundle, build=build, label=effort.label, sweep=sweep
    )
    with database.reading() as tx:
        return find_run(tx, str(made.run.id)), devices


def _resume_run(
    database: Database, run_name: str, settings: Settings
) -> tuple[RunRow, list[DeviceFacts], list[Route]]:
    from vkbench_db.ask import queries
    from vkbench_db.work.arrivals import settle
    from vkbench_local.machine import all_devices
    from vkbench_worker.owner.routes import find_routes

    with database.reading() as tx:
        run = queries.find_run(tx, run_name)
    refuse_imported(run, "continue it")
    settle(database, run.id, time.time())
    with database.reading() as tx:
        run = queries.find_run(tx, str(run.id))
        waiting = {job.device for job in queries.jobs(tx, run=run.id, states=ACTIVE, limit=None)}
    if run.progress.state == JobState.ARRIVING:
        raise NothingToDo(
            f"run {run.id} was stopped before all its jobs were stored: none of them runs; run "
            "it anew"
        )
    if not waiting:
        raise NothingToDo(f"run {run.id} has no unfinished jobs")
    Doing.now(LOADING)
    devices = [facts for facts in all_devices() if facts.key in waiting]
    if not devices:
        raise NothingToDo(f"the unfinished jobs of run {run.id} are for devices of another machine")
    _refuse_paused(database, devices)
    if not (sha := str(run.selection.get("driver") or "")):
        return run, devices, []
    try:
        driver = kept_drivers(settings).find(sha)
    except UsageError as error:
        gone = f"run {run.id} is through the driver {sha[:SHA_SHOWN]}, which was removed"
        raise UsageError(f"{gone}: add it again") from error
    routes = find_routes(driver, [facts.key for facts in devices], settings)
    return run, [route.facts for route in routes], routes


class Ended(StrEnum):
    """Why no more jobs of a run begin."""

    DONE = "done"
    INTERRUPTED = "interrupted"  # by the user
    OUT_OF_TIME = "out of time"  # that --stop-after gave, with jobs left


def work(
    database: Database,
    settings: Settings,
    run: RunRow,
    devices: list[DeviceFacts],
    seconds: float | None = None,
    routes: Sequence[Route] = (),
    doing: Doing | None = None,
) -> Ended:
    """Do the run's jobs; after so many seconds begin no other."""
    from vkbench_cli.show.waiting import RunProgress
    from vkbench_local.executor import Executor, stoppable, stopped_after
    from vkbench_local.kernels import compile_kernels

    compile_kernels(database, run.id, devices, doing.count_kernels if doing else None)
    with RunProgress(database, run.id) as progress:
        executor = Executor(database, settings, progress.watch, progress.tell)
        with stoppable(executor), stopped_after(executor, seconds):
            executor.work(run.id, devices, routes)
    if executor.interrupted:
        return Ended.INTERRUPTED
    return Ended.OUT_OF_TIME if executor.stopped and _has_left(database, run.id) else Ended.DONE


def _has_left(database: Database, run: int) -> bool:
    from vkbench_db.ask import queries

    with database.reading() as tx:
        return bool(queries.jobs(tx, run=run, states=ACTIVE, limit=1))


def _refuse_paused(database: Database, devices: list[DeviceFacts]) -> None:
    from vkbench_db.ask import queries

    with database.reading() as tx:
        paused = {row.key for row in queries.devices(tx) if row.paused}
    for facts in devices:
        if facts.key in paused:
            raise NothingToDo(f"{facts.name} is paused: `vkbench resume {facts.key}`")


def how_to_go_on(run: int, store: Store) -> str:
    """What to type after a run was stopped."""
    where = f" --database {store.database}" if store.database else ""
    return f"stopped; `vkbench run --resume {run}{where}` continues"
