"""Stores what sweeps found, when they have ended."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from vkbench_db.upkeep import tuning
from vkbench_db.upkeep.tuning import Found, Trial
from vkbench_detection.tune.winners import Standing, standings


def settle(tx: Connection) -> int:
    """Store the findings of sweeps that have ended; return how many. Repeating it stores none."""
    winners = [winner for run in tuning.unsettled_sweeps(tx) for winner in _find_winners(tx, run)]
    tuning.store(tx, winners)
    return len(winners)


def _find_winners(tx: Connection, run: int) -> list[Found]:
    trials = tuning.kept_trials(tx, run)
    by_place: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        by_place.setdefault((trial.device, trial.case), []).append(trial)
    drivers = tuning.drivers(tx, sorted({trial.environment for trial in trials}))
    rows = [
        _row(run, standing, by_place[place], drivers)
        for place, standing in standings(trials).items()
    ]
    return [row for row in rows if row]


def _row(
    run: int, standing: Standing, trials: Sequence[Trial], drivers: dict[str, tuple[str, str]]
) -> Found | None:
    """A finding; None where nothing was right, or where the driver changed during the sweep."""
    ran = {drivers.get(trial.environment) for trial in trials if trial.seconds}
    if not (standing.best and standing.estimated) or len(ran) != 1 or None in ran:
        return None
    driver, version = next(software for software in ran if software)
    return Found(
        run_id=run,
        device_id=trials[0].device_id,
        case_id=trials[0].case_id,
        driver=driver,
        driver_version=version,
        configuration=standing.best.configuration,
        seconds=standing.best.typical,
        estimated=standing.estimated.configuration,
        estimated_seconds=standing.estimated.typical,
        measured_at=max(trial.finished_at or 0.0 for trial in trials),
    )
