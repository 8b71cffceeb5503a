"""What a run is for: work that people or schedules asked for, or a step of vkbench's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from vkbench.calibration import SUITE


class RunKind(StrEnum):
    """What a run is for, and what is kept about runs of each kind."""

    WORK = "work"  # of a schedule: `schedule`, its name, and `slot`, the time it was due
    SWEEP = "sweep"  # tries configurations: `sweep`, how many; `unkept`, cases without a finding
    CONFIRMATION = "confirmation"  # pairs of a suspicion: `change`, its number
    BISECTION = "bisection"  # pairs of a bisection: `bisection`, its number, and `position`
    CALIBRATION = "calibration"
    TRIAL = "trial"  # the canary of a device that is served again
    SECOND_CHECK = "second check"  # of a timing too fast: `job`, its number, and `told_at`
    SHARD = "shard"  # a case divided among devices
    ACCURACY = "accuracy"  # what formats and models lose; has no jobs
    IMPORT = "import"  # what another program timed by itself: `peer`, its name


# Runs that `last` may mean. A run of work that was imported from another vkbench is one.
MEASURED: Final = (RunKind.WORK, RunKind.SHARD, RunKind.ACCURACY)
COMPARED: Final = (RunKind.WORK, RunKind.SHARD)


@dataclass(frozen=True, kw_only=True)
class Purpose:
    """The kind of a run, and what its maker needs to find again about it."""

    kind: RunKind = RunKind.WORK
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunWords:
    """What the maker of a run says of it."""

    user: str = ""
    label: str = ""
    tags: Mapping[str, Any] = field(default_factory=dict)
    purpose: Purpose = Purpose()
    idempotency_key: str | None = None  # of two runs with one key, the first is made


def kind_of_suite(suite: str) -> RunKind:
    """The kind of a run of a suite that someone asked for."""
    return RunKind.CALIBRATION if suite == SUITE else RunKind.WORK
