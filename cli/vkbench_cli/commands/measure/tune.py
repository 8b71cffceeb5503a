"""`vkbench tune`: finds the fastest configurations of kernels by timing them."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Annotated

from typer import Option

from vkbench.errors import EXIT_INTERRUPTED, UsageError
from vkbench.process import log
from vkbench.words.units import count_of
from vkbench_cli.commands.measure.run import Ended, how_to_go_on, plan_run, work
from vkbench_cli.commands.measure.submit import announce, submit_selection
from vkbench_cli.files import check_readable, check_writable
from vkbench_cli.machine import open_alone
from vkbench_cli.options.effort import Effort
from vkbench_cli.options.records import (
    NO_TRACK,
    RUN_HELP,
    Devices,
    Formats,
    Kernels,
    Selecting,
    Shapes,
    Store,
)
from vkbench_cli.show.printing import Output
from vkbench_cli.show.telling import tell
from vkbench_cli.store import open_database, reading
from vkbench_scheduler.planning.sweeps import ROUNDS, SECONDS, SETTINGS, SUITE, Sweep

NOTHING_YET = "no configuration was measured yet: run `vkbench tune`"


def tune(
    *,
    kernel: Kernels = [],  # noqa: B006
    format: Formats = [],  # noqa: B006
    shape: Shapes = [],  # noqa: B006
    case: Annotated[
        list[str],
        Option(metavar="NAME", help="Only this case, by its full name; may be repeated."),
    ] = [],  # noqa: B006
    variant: Annotated[
        str,
        Option(
            metavar="V",
            help="Sweep the settings of this variant, beside what auto takes; alone if auto never "
            "takes it.",
        ),
    ] = "all",
    device: Devices = [],  # noqa: B006
    settings: Annotated[
        int,
        Option(metavar="N", min=1, help="Try at most N settings of a variant, the likeliest ones."),
    ] = SETTINGS,
    rounds: Annotated[
        int, Option(metavar="N", min=1, help="Time each configuration N times.")
    ] = ROUNDS,
    seconds: Annotated[
        float, Option(metavar="S", min=0.001, help="Time limit for sampling one metric.")
    ] = SECONDS,
    submit: Annotated[
        bool, Option("--submit", help="Let the fleet's workers do it; `--run` shows the results.")
    ] = False,
    run: Annotated[
        str,
        Option(metavar="RUN", help=f"Show a sweep that was measured. {RUN_HELP}"),
    ] = "",
    show_known: Annotated[
        bool, Option("--show", help="Show the configurations that are known; measure nothing.")
    ] = False,
    export: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Write the tuning table of --device to FILE, to install it or send it in.",
        ),
    ] = None,
    install: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Let this host's devices of its class use the tuning table in FILE.",
        ),
    ] = None,
    store: Store,
    output: Output,
) -> int:
    """Find the fastest configurations of kernels by timing them.

    A sweep times each case with every configuration that may be the fastest: variants, tiles,
    workgroup sizes, parts of sums. `auto` then takes the fastest on this device and driver.
    Without options it tunes the suite 'tuning' on the best device of this machine.

    \b
    vkbench tune --kernel matmul --shape b=1,m=4096,n=4096,k=4096
    vkbench tune --kernel 'mul_mat*' --format q4_0 --submit --device 'NVIDIA*'
    vkbench tune --export hopper.json

    Exit codes: 0 all passed, 3 a wrong result, 4 a failed job, 7 nothing ran, 130 interrupted.
    """
    if sum(map(bool, (submit, run, show_known, export, install))) > 1:
        raise UsageError("give one of --submit, --run, --show, --export and --install")
    if install:
        return _install(install)
    if export:
        return _export(export, device, store)
    if show_known:
        return _show_known(device, store, output)
    if run:
        return _show_run(run, store, output)
    anything = kernel or format or shape or case
    selecting = Selecting(
        suite="" if anything else SUITE,
        kernel=kernel,
        format=format,
        shape=shape,
        case=case,
        device=device,
        variant=variant,
    )
    effort = Effort(seconds=seconds, track=NO_TRACK, label="")
    sweep = Sweep(settings=settings, rounds=rounds)
    measure = _submit if submit else _measure
    return measure(selecting, effort, sweep, store, output)


def _measure(
    selecting: Selecting, effort: Effort, sweep: Sweep, store: Store, output: Output
) -> int:
    from vkbench_cli.show.report import print_counts
    from vkbench_cli.show.sweeps import show_sweep
    from vkbench_detection.steps import detect

    settings = store.settings()
    log.set_up(logging.WARNING)
    with open_alone(settings) as database:
        run, devices = plan_run(database, selecting, effort, settings, sweep)
        if work(database, settings, run, devices) is Ended.INTERRUPTED:
            tell(how_to_go_on(run.id, store))
            return EXIT_INTERRUPTED
        detect(database, time.time())
        with database.reading() as tx:
            show_sweep(tx, run, output)
        return print_counts(database, run.id)


def _submit(
    selecting: Selecting, effort: Effort, sweep: Sweep, store: Store, output: Output
) -> int:
    with open_database(store.settings()) as database:
        made = submit_selection(database, selecting, effort, sweep=sweep)
        announce(database, made)
    tell(f"when it has ended: `vkbench tune --run {made.run.id}`")
    return 0


def _show_run(run_name: str, store: Store, output: Output) -> int:
    from vkbench.run import RunKind
    from vkbench_cli.show.sweeps import show_sweep
    from vkbench_db.ask.queries import find_run

    with reading(store.settings()) as tx:
        run = find_run(tx, run_name, [RunKind.SWEEP])
        if run.kind != RunKind.SWEEP:
            raise UsageError(f"run {run.id} is no sweep: `vkbench results --run {run.id}`")
        show_sweep(tx, run, output)
    return 0


def _show_known(devices: list[str], store: Store, output: Output) -> int:
    from vkbench_cli.show.sweeps import show_known
    from vkbench_db.ask.devices.names import device_keys
    from vkbench_db.blank import is_blank
    from vkbench_db.upkeep.tuning import newest_findings

    with reading(store.settings()) as tx:
        rows = [] if is_blank(tx) else newest_findings(tx, device_keys(tx, devices))
    show_known(rows, output, nothing=NOTHING_YET)
    return 0


def _export(path: Path, devices: list[str], store: Store) -> int:
    from vkbench_cli.files import whole_file
    from vkbench_db.ask import queries
    from vkbench_db.ask.devices.names import device_keys
    from vkbench_scheduler.tuned import table_of
    from vkbench_shaders.tuning.tables import encode

    check_writable(path)
    with open_database(store.settings()) as database, database.reading() as tx:
        keys = device_keys(tx, devices)
        facts = [row.facts for row in queries.devices(tx) if not devices or row.key in keys]
        table = table_of(tx, facts)
    with whole_file(path) as file:
        file.write(encode(table))
    count = count_of(len(table.tuned), "case")
    rates = (
        " and its calibration" if table.peaks else "; without a calibration it cannot be sent in"
    )
    tell(f"{path}: {count} of class {table.device_class}{rates}")
    return 0


def _install(path: Path) -> int:
    from vkbench.messages.wire import MalformedMessage
    from vkbench_cli.files import whole_file
    from vkbench_shaders.tuning.classes import installed_path
    from vkbench_shaders.tuning.tables import encode, read

    check_readable(path)
    try:
        table = read(path.read_bytes())
    except (MalformedMessage, UsageError) as error:
        raise UsageError(f"{path} is no tuning table: {error}") from error
    place = installed_path(table.device_class)
    place.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(place) as file:
        file.write(encode(table))
    tell(f"devices of class {table.device_class} use {place}")
    return 0
