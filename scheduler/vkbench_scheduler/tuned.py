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
from vkbench_db.rows import record_of
from vkbench_db.upkeep.tuning import TunedRow, newest_findings, tuned_now
from vkbench_db.work.store import Picked
from vkbench_detection.series.calibrations import Reached, latest
from vkbench_scheduler.planning.selection import AUTO
from vkbench_scheduler.tuning_evidence import gather_evidence
from vkbench_shaders.catalogue import problem
from vkbench_shaders.tuning.classes import class_of
from vkbench_shaders.tuning.estimates import Peaks
from vkbench_shaders.tuning.rates import Rates, rates_of
from vkbench_shaders.tuning.tables import Source, Table, Tuned, digest_of, encode

_MATRICES = "f16_f32"  # of a calibration's rates of matrices, the one that thresholds go by


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

    Of several findings for a case the newest counts. Devices that were calibrated and never tuned
    have a table of their rates. Its evidence says how each case was measured, for those whom the
    table is sent to.
    """
    facts = {device.key: device for device in devices}
    rows = sorted(newest_findings(tx, list(facts)), key=lambda row: row.measured_at)
    peaks = sorted(latest(tx, devices=list(facts)), key=lambda reached: reached.measured_at)
    known = [row.device for row in rows] or [reached.device for reached in peaks]
    if not known:
        raise NothingToDo(
            "these devices were neither tuned nor calibrated yet: run `vkbench tune` or "
            "`vkbench calibrate`"
        )
    classes = sorted({class_of(facts[device]).name for device in known})
    if len(classes) > 1:
        raise UsageError(
            f"a tuning table is of one class of devices, these are of {' and '.join(classes)}: "
            "choose with --device"
        )
    newest = {row.case: row for row in rows}
    device = facts[known[-1]]
    last = {each.device: each for each in peaks}
    reached = last.get(device.key)
    table = Table(
        device_class=classes[0],
        rates=_rates(device, reached),
        peaks=_peaks(device, reached),
        sources=_sources([*newest.values(), *([reached] if reached else [])]),
        tuned=_entries(sorted(newest.values(), key=lambda row: row.case)),
        evidence=gather_evidence(tx, list(newest.values()), facts, last),
    )
    return replace(table, digest=digest_of(encode(table)))


def _add_configuration(picked: Picked, table: Table) -> Picked:
    try:
        posed = problem(picked.job.case)
    except VkbenchError:  # of another version's catalogue: its worker says what it knows
        return picked
    return replace(picked, job=replace(picked.job, tuned=table.configuration(posed)))


def _entries(rows: Iterable[TunedRow]) -> tuple[Tuned, ...]:
    return tuple(record_of(vars(row), Tuned) for row in rows)


def _rates(device: DeviceFacts, reached: Reached | None) -> Rates:
    """The rates of a device's class, with those that the device's last calibration measured."""
    known = rates_of(device)
    if reached is None:
        return known
    fma = reached.fma_f32 and reached.fma_f32 / known.compute_units
    return replace(
        known,
        fma=fma or known.fma,
        memory_bytes=reached.read_bytes or known.memory_bytes,
        launch_seconds=reached.launch_seconds or known.launch_seconds,
    )


def _peaks(device: DeviceFacts, reached: Reached | None) -> Peaks | None:
    """What thresholds are scaled by, if a calibration measured all that every device has."""
    if not (reached and reached.fma_f32 and reached.read_bytes and reached.launch_seconds):
        return None
    return Peaks(
        compute_units=rates_of(device).compute_units,
        fma=reached.fma_f32,
        matrices=reached.matrices.get(_MATRICES, 0.0),
        memory_bytes=reached.read_bytes,
        launch_seconds=reached.launch_seconds,
    )


def _sources(rows: Iterable[TunedRow | Reached]) -> tuple[Source, ...]:
    last: dict[tuple[str, str, str], float] = {}
    for row in rows:
        place = (row.device_name, row.driver or "", row.driver_version or "")
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
