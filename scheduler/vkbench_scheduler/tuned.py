"""The configurations that sweeps found to be the fastest: for runners, and as tuning tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby

from sqlalchemy import Connection

import vkbench
from vkbench.case import is_model, is_own
from vkbench.device import DeviceFacts
from vkbench.errors import NothingToDo, UsageError, VkbenchError
from vkbench_db.upkeep.tuning import TunedRow, newest_findings, tuned_now
from vkbench_db.work.store import Picked
from vkbench_detection.series.calibrations import latest
from vkbench_scheduler.planning.selection import AUTO
from vkbench_shaders.catalogue import problem
from vkbench_shaders.tuning.classes import class_of
from vkbench_shaders.tuning.rates import Rates, rates_of
from vkbench_shaders.tuning.tables import Source, Table, Tuned


def with_tuned(tx: Connection, device: str, picked: Sequence[Picked]) -> list[Picked]:
    """Jobs of a device; those that leave the code path open name the fastest one that is known."""
    return with_all_tuned(tx, {device: picked})[device]


def with_all_tuned(
    tx: Connection, picked: Mapping[str, Sequence[Picked]]
) -> dict[str, list[Picked]]:
    """The jobs of several devices; open code paths become the fastest known ones."""
    tunable = [device for device, jobs in picked.items() if any(map(_is_open, jobs))]
    rows = tuned_now(tx, tunable) if tunable else []
    configured = {device: list(jobs) for device, jobs in picked.items()}
    for device, tuned_rows in groupby(rows, key=lambda row: row.device):
        table = Table(tuned=_entries(tuned_rows))
        configured[device] = [
            _add_configuration(pick, table) if _is_open(pick) else pick
            for pick in configured[device]
        ]
    return configured


def _is_open(picked: Picked) -> bool:
    """Whether a job leaves its code path open; nothing but the catalogue's cases is tuned."""
    job = picked.job
    return job.variant == AUTO and not is_model(job.case) and not is_own(job.case)


def table_of(tx: Connection, devices: Sequence[DeviceFacts]) -> Table:
    """The tuning table of a class of devices, from all that was measured on them.

    Of several findings for a case the newest counts.
    """
    facts = {device.key: device for device in devices}
    rows = sorted(
        (row for row in newest_findings(tx, list(facts))), key=lambda row: row.measured_at
    )
    if not rows:
        raise NothingToDo("no configuration of these devices was measured yet: run `vkbench tune`")
    classes = sorted({class_of(facts[row.device]).name for row in rows})
    if len(classes) > 1:
        raise UsageError(
            f"a tuning table is of one class of devices, these are of {' and '.join(classes)}: "
            "choose with --device"
        )
    newest = {row.case: row for row in rows}
    return Table(
        device_class=classes[0],
        rates=_rates(tx, facts[rows[-1].device]),
        sources=_sources(newest.values()),
        tuned=_entries(sorted(newest.values(), key=lambda row: row.case)),
    )


def _add_configuration(picked: Picked, table: Table) -> Picked:
    try:
        posed = problem(picked.job.case)
    except VkbenchError:  # of another version's catalogue: its worker says what it knows
        return picked
    return replace(picked, job=replace(picked.job, tuned=table.configuration(posed)))


def _entries(rows: Iterable[TunedRow]) -> tuple[Tuned, ...]:
    return tuple(
        Tuned(
            case=row.case,
            configuration=row.configuration,
            seconds=row.seconds,
            estimated=row.estimated,
            estimated_seconds=row.estimated_seconds,
        )
        for row in rows
    )


def _rates(tx: Connection, device: DeviceFacts) -> Rates:
    """The rates of a device's class, with those that the device's last calibration measured."""
    known = rates_of(device)
    for reached in latest(tx, devices=[device.key]):
        fma = reached.fma_f32 and reached.fma_f32 / known.compute_units
        known = replace(
            known,
            fma=fma or known.fma,
            memory_bytes=reached.read_bytes or known.memory_bytes,
            launch_seconds=reached.launch_seconds or known.launch_seconds,
        )
    return known


def _sources(rows: Iterable[TunedRow]) -> tuple[Source, ...]:
    last: dict[tuple[str, str, str], float] = {}
    for row in rows:
        place = (row.device_name, row.driver, row.driver_version)
        last[place] = max(row.measured_at, last.get(place, 0.0))
    return tuple(
        Source(
            device=device,
            driver=driver,
            driver_version=version,
            vkbench=vkbench.__version__,
            measured_at=datetime.fromtimestamp(moment, UTC).date().isoformat(),
        )
        for (device, driver, version), moment in sorted(last.items())
    )
