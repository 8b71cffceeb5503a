"""The tables. Portable types only; every index stands beside the query that needs it.

    work    host ── device ──┐                       environment (by hash)
                             ├── job ── attempt      one a dispatch that came back
            run ─────────────┤    ├── verdict        of the attempt that settled the job
            kernel_case ─────┘    └── measurement    one a timing metric, of the same attempt
            bundle ── bundle_blob ── blob            by SHA-256

    change  measurement ── series ── change_point ── regression_member ── regression
                                      └── confirmation (a run of pairs)

    upkeep  device ── calibration, canary            regression ── bisection ── bisection_step
            schedule ── schedule_slot ── run                    └── alert_delivery
            scheduler

What changed, and how sure that is: a series is what stays the same (device, case, code path,
metric, environment class, track) while driver and kernels change. Change points and regressions
are never deleted: each step of theirs is a row of its own in a table of events.

A job has at most one verdict and one measurement of each metric: their primary keys hold
"the first settling result wins" even where code does not.
"""

from __future__ import annotations

from vkbench_db.models.change import (
    ChangePoint,
    ChangePointEvent,
    Confirmation,
    Fresh,
    Regression,
    RegressionEvent,
    RegressionMember,
    Series,
)
from vkbench_db.models.model import Json, Model
from vkbench_db.models.upkeep import (
    AlertDelivery,
    Baseline,
    Bisection,
    BisectionStep,
    Calibration,
    Canary,
    Schedule,
    Scheduler,
    ScheduleSlot,
)
from vkbench_db.models.work import (
    Attempt,
    Blob,
    Bundle,
    BundleBlob,
    Device,
    Environment,
    Host,
    Job,
    KernelCase,
    Measurement,
    Run,
    Verdict,
)

__all__ = [
    "AlertDelivery",
    "Attempt",
    "Baseline",
    "Bisection",
    "BisectionStep",
    "Blob",
    "Bundle",
    "BundleBlob",
    "Calibration",
    "Canary",
    "ChangePoint",
    "ChangePointEvent",
    "Confirmation",
    "Device",
    "Environment",
    "Fresh",
    "Host",
    "Job",
    "Json",
    "KernelCase",
    "Measurement",
    "Model",
    "Regression",
    "RegressionEvent",
    "RegressionMember",
    "Run",
    "Schedule",
    "ScheduleSlot",
    "Scheduler",
    "Series",
    "Verdict",
]
