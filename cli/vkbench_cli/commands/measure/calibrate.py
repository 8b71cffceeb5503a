"""`vkbench calibrate`: measures, stores and shows the peak rates of devices."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vkbench.calibration import SUITE
from vkbench.errors import EXIT_INTERRUPTED, UsageError
from vkbench.process import log
from vkbench_cli.commands.measure.run import Ended, how_to_go_on, plan_run, work
from vkbench_cli.commands.measure.submit import submit
from vkbench_cli.machine import open_alone
from vkbench_cli.options.effort import Effort
from vkbench_cli.options.records import Devices, Selecting, Store
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import tell
from vkbench_cli.store import reading
from vkbench_tables.table import Cell, Column, Table, ValueKind

if TYPE_CHECKING:
    from vkbench_detection.series.calibrations import Reached

COLUMNS = (
    Column(key="host", heading="host", lifted=True),
    Column(key="device_name", heading="device", lifted=True),
    Column(key="device", heading="key", hidden=True),
    Column(key="driver", heading="driver", hidden=True),
    Column(key="driver_version", heading="version"),
    Column(key="environment", heading="environment", hidden=True),
    Column(key="llc_bytes", heading="cache", kind=ValueKind.BYTES),
    Column(key="read_bytes_per_second", heading="read", kind=ValueKind.BYTE_RATE),
    Column(key="copy_bytes_per_second", heading="copy", kind=ValueKind.BYTE_RATE),
    Column(key="fma_f32_per_second", heading="fma f32", kind=ValueKind.FLOP_RATE),
    Column(key="fma_f16_per_second", heading="fma f16", kind=ValueKind.FLOP_RATE),
    Column(key="dot_i8_per_second", heading="dot i8", kind=ValueKind.OP_RATE),
)
WHOLE = ("i8", "u8")  # factors of matrices that are whole numbers
_NO_CACHE = "hot timings that memory may limit get no share of the peak rate"
LAST_COLUMNS = (
    Column(key="launch_seconds", heading="launch", kind=ValueKind.SECONDS),
    Column(key="tick_seconds", heading="tick", kind=ValueKind.SECONDS),
    Column(key="noise", heading="noise", kind=ValueKind.PERCENT),
    Column(key="run", heading="run", kind=ValueKind.ID),
    Column(key="measured_at", heading="measured", kind=ValueKind.TIME),
)

NOTHING_YET = "no device is calibrated yet: run `vkbench calibrate`"


def calibrate(
    *,
    device: Devices = [],  # noqa: B006
    submit: Annotated[
        bool,
        Option(
            "--submit", help="Let the fleet's workers do it; `--show` lists the results afterwards."
        ),
    ] = False,
    show_known: Annotated[
        bool, Option("--show", help="Show stored calibrations; measure nothing.")
    ] = False,
    store: Store,
    output: Output,
) -> int:
    """Measure the peak rates of devices, which timings are compared with.

    Measures memory reads and copies, f32 and f16 multiply-adds, int8 dot products, cooperative
    matrices where the device has them, the cost of a launch, the timer's resolution, and the
    noise of repeated timings, by the suite `calibration`.

    \b
    vkbench calibrate
    vkbench calibrate --submit --device 'NVIDIA*'
    vkbench calibrate --show --json

    Exit codes: 0 all passed, 3 a wrong result, 4 a failed job, 7 nothing ran, 130 interrupted.
    """
    if submit and show_known:
        raise UsageError("give --submit or --show, not both")
    if show_known:
        return _show_known(device, store, output)
    selecting = Selecting(suite=SUITE, device=device)
    return (_submit if submit else _measure)(selecting, store, output)


def _measure(selecting: Selecting, store: Store, output: Output) -> int:
    from vkbench_cli.show.report import print_counts
    from vkbench_detection.series.calibrations import latest, settle
    from vkbench_detection.steps import detect

    settings = store.settings()
    log.set_up(logging.WARNING)
    with open_alone(settings) as database:
        run, devices = plan_run(database, selecting, Effort(label=SUITE), settings)
        if work(database, settings, run, devices) is Ended.INTERRUPTED:
            tell(how_to_go_on(run.id, store))
            return EXIT_INTERRUPTED
        with database.transaction() as tx:  # before its results are held against it
            settle(tx, time.time())
        detect(database, time.time())
        with database.reading() as tx:
            reached = latest(tx, run=run.id)
        _show(reached, output)
        return print_counts(database, run.id)


def _submit(selecting: Selecting, store: Store, output: Output) -> int:

    return submit(selecting=selecting, effort=Effort(label=SUITE), store=store, output=output)


def _show_known(selectors: Sequence[str], store: Store, output: Output) -> int:
    from vkbench_db.ask.devices.names import device_keys
    from vkbench_db.blank import is_blank
    from vkbench_detection.series.calibrations import latest

    with reading(store.settings()) as tx:
        is_new = is_blank(tx)
        reached = [] if is_new else latest(tx, devices=device_keys(tx, selectors))
    _show(reached, output)
    return 0


def _show(reached: Sequence[Reached], output: Output) -> None:
    show(table(reached), output)
    unknown = {f"{row.device_name} ({row.device})" for row in reached if not row.llc_bytes}
    for device in sorted(unknown):
        tell(f"{device}: its last-level cache size is unknown; {_NO_CACHE}")


def table(reached: Sequence[Reached]) -> Table:
    """One row per device and environment; a column for each kind of matrices any of them has."""
    kinds = sorted({kind for row in reached for kind in row.matrices})
    matrices = [
        Column(
            key=f"matrix_{kind}_per_second",
            heading=kind.replace("_", ">"),
            kind=ValueKind.OP_RATE if kind.startswith(WHOLE) else ValueKind.FLOP_RATE,
        )
        for kind in kinds
    ]
    rows = [_row(row, kinds) for row in reached]
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
