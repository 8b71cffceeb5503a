"""What a run is for: work that people or schedules asked for, or a step of vkbench's own.

The tables do not say it yet. This is the one place that reads it from what tells kinds apart:
modes, tracks, tags and the selection.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from sqlalchemy import ColumnElement, String, Text, and_, case, cast

from vkbench.calibration import SUITE
from vkbench.job import PEERS, Mode
from vkbench_db.schema.work import run as run_table

SWEEP = "tune"  # key in the tags of a run that is a sweep
BISECTION = "bisection"  # of one that is a round of a bisection
TRIAL_PRIORITY = 1_000_000  # of a run of a device's canary alone, before whatever waits


class RunKind(StrEnum):
    """What a run is for."""

    WORK = "work"
    SWEEP = "sweep"  # tries configurations
    CONFIRMATION = "confirmation"  # pairs of a suspicion
    BISECTION = "bisection"  # pairs of bundles
    CALIBRATION = "calibration"
    TRIAL = "trial"  # the canary of a device that is served again
    SHARD = "shard"  # a case divided among devices
    ACCURACY = "accuracy"  # what formats and models lose; has no jobs
    IMPORT = "import"  # what another program timed by itself


# Which runs `last` may mean. A run of work that was imported from another vkbench is one.
MEASURED: Final = (RunKind.WORK, RunKind.SHARD, RunKind.ACCURACY)
COMPARED: Final = (RunKind.WORK, RunKind.SHARD)


def kind() -> ColumnElement[str]:
    """The kind of a run, as a column."""
    run = run_table.c
    return case(
        (is_sweep(), RunKind.SWEEP.value),
        (and_(run.mode == Mode.PAIRED, _has_tag(BISECTION)), RunKind.BISECTION.value),
        (run.mode == Mode.PAIRED, RunKind.CONFIRMATION.value),
        (run.selection["suite"].as_string() == SUITE, RunKind.CALIBRATION.value),
        (and_(run.track == "", run.priority == TRIAL_PRIORITY), RunKind.TRIAL.value),
        (run.mode == Mode.SHARDED, RunKind.SHARD.value),
        (run.mode == Mode.ACCURACY, RunKind.ACCURACY.value),
        (run.track == PEERS, RunKind.IMPORT.value),
        else_=RunKind.WORK.value,
    ).cast(String)


def is_sweep() -> ColumnElement[bool]:
    """Whether a run is a sweep of configurations."""
    return (run_table.c.track == "") & _has_tag(SWEEP)


def _has_tag(name: str) -> ColumnElement[bool]:
    return cast(run_table.c.tags, Text).contains(f'"{name}": ')
