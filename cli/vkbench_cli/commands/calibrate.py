"""`vkbench calibrate`: what devices do at most, measured, stored and shown."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vkbench import log
from vkbench.calibration import SUITE
from vkbench.errors import EXIT_INTERRUPTED, UsageError
from vkbench_cli.options import Devices, Effort, Output, Selecting, Store
from vkbench_cli.printing import Cell, Column, Kind, Table, show

if TYPE_CHECKING:
    from vkbench_db.calibrations import Reached

COLUMNS = (
    Column(key="host", heading="host", lifted=True),
    Column(key="device_name", heading="device", lifted=True),
    Column(key="device", heading="key", hidden=True),
    Column(key="driver", heading="driver", hidden=True),
    Column(key="driver_version", heading="version"),
    Column(key="environment", heading="environment", hidden=True),
    Column(key="llc_bytes", heading="cache", kind=Kind.BYTES),
    Column(key="read_bytes_per_second", heading="read", kind=Kind.BYTE_RATE),
    Column(key="copy_bytes_per_second", heading="copy", kind=Kind.BYTE_RATE),
    Column(key="fma_f32_per_second", heading="fma f32", kind=Kind.FLOP_RATE),
    Column(key="fma_f16_per_second", heading="fma f16", kind=Kind.FLOP_RATE),
    Column(key="dot_i8_per_second", heading="dot i8", kind=Kind.FLOP_RATE),
)
_NO_CACHE = "hot timings that memory may limit have no share of a roof"
LAST_COLUMNS = (
    Column(key="launch_seconds", heading="launch", kind=Kind.SECONDS),
    Column(key="tick_seconds", heading="tick", kind=Kind.SECONDS),
    Column(key="noise", heading="noise", kind=Kind.PERCENT),
    Column(key="run", heading="run", kind=Kind.COUNT),
    Column(key="measured_at", heading="measured", kind=Kind.TIME),
)

NOTHING_YET = "no device was calibrated yet: `vkbench calibrate` does it, in a minute"


def calibrate(
    *,
    device: Devices = [],  # noqa: B006
    submit: Annotated[
        bool, Option("--submit", help="Have the fleet's workers do it; --show tells afterwards.")
    ] = False,
    show_known: Annotated[
        bool, Option("--show", help="Show what devices reached before, and measure nothing.")
    ] = False,
    store: Store,
    output: Output,
) -> int:
    """Measure what devices do at most: the roofs of timings.

    Reading and copying memory, multiply-adds of f32 and f16, products of bytes and cooperative
    matrices where the device has them, what a launch costs, the timer's tick, and how far equal
    timings are apart. Takes a minute on this machine's best device.

    \b
    vkbench calibrate
    vkbench calibrate --submit --device 'NVIDIA*'
    vkbench calibrate --show --json

    Exit codes: 0 all right, 3 a wrong result, 4 a job that failed, 7 nothing ran, 130 interrupted.
    """
    if submit and show_known:
        raise UsageError("--submit measures and --show does not: give one of them")
    if show_known:
        return _show_known(device, store, output)
    selecting = Selecting(suite=SUITE, device=device)
    return (_submit if submit else _measure)(selecting, store, output)


def _measure(selecting: Selecting, store: Store, output: Output) -> int:
    from vkbench_cli.commands.run import how_to_go_on, planned, work
    from vkbench_cli.local import sole_executor
    from vkbench_cli.report import exit_code, summary
    from vkbench_db import queries
    from vkbench_db.calibrations import latest, settle
    from vkbench_db.database import Database
    from vkbench_db.detection import detect

    ours = store.settings()
    log.set_up(logging.WARNING)
    with (
        sole_executor(ours.database_url()),
        Database.open(ours.database_url(), create=True) as database,
    ):
        found, devices = planned(database, selecting, Effort(label=SUITE), ours)
        if not work(database, ours, found, devices):
            print(how_to_go_on(found.id, store), file=sys.stderr)
            return EXIT_INTERRUPTED
        with database.transaction() as tx:  # before its results are held against it
            settle(tx, time.time())
        detect(database, time.time())
        with database.reading() as tx:
            reached = latest(tx, run=found.id)
            counts = queries.find_run(tx, str(found.id)).progress.counts
    _show(reached, output)
    print(summary(found.id, counts, 0), file=sys.stderr)
    return exit_code(counts)


def _submit(selecting: Selecting, store: Store, output: Output) -> int:
    from vkbench_cli.commands.submit import submit

    return submit(selecting=selecting, effort=Effort(label=SUITE), store=store, output=output)


def _show_known(selectors: Sequence[str], store: Store, output: Output) -> int:
    from vkbench_cli.store import reading
    from vkbench_db.blank import is_blank
    from vkbench_db.calibrations import latest
    from vkbench_db.device_names import device_keys

    with reading(store.settings()) as tx:
        is_new = is_blank(tx)
        reached = [] if is_new else latest(tx, devices=device_keys(tx, selectors))
    _show(reached, output)
    return 0


def _show(reached: Sequence[Reached], output: Output) -> None:
    show(table(reached), output)
    unknown = {f"{each.device_name} ({each.device})" for each in reached if not each.llc_bytes}
    for device in sorted(unknown):
        print(
            f"{device}: the size of its last-level cache is unknown; {_NO_CACHE}", file=sys.stderr
        )


def table(reached: Sequence[Reached]) -> Table:
    """A row a device and environment, a column more for each kind of matrices that any has."""
    kinds = sorted({kind for each in reached for kind in each.matrices})
    matrices = [
        Column(key=f"matrix_{kind}_per_second", heading=kind.replace("_", ">"), kind=Kind.FLOP_RATE)
        for kind in kinds
    ]
    rows = [_row(each, kinds) for each in reached]
    columns = (*COLUMNS, *matrices, *LAST_COLUMNS)
    return Table(columns=columns, rows=rows, nothing=NOTHING_YET)


def _row(reached: Reached, kinds: Sequence[str]) -> dict[str, Cell]:
    return {
        **{name: value for name, value in vars(reached).items() if name != "matrices"},
        "llc_bytes": reached.llc_bytes or None,
        "read_bytes_per_second": reached.read_bytes,
        "copy_bytes_per_second": reached.copy_bytes,
        "fma_f32_per_second": reached.fma_f32,
        "fma_f16_per_second": reached.fma_f16,
        "dot_i8_per_second": reached.dot_i8,
        **{f"matrix_{kind}_per_second": reached.matrices.get(kind) for kind in kinds},
    }
