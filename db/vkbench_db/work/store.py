"""All functions that write runs, jobs and results: only these change the state of a job."""

from __future__ import annotations

from vkbench_db.database import try_lead
from vkbench_db.work.bundles import (
    StoredBundle,
    bundles_named,
    has_bundle,
    load_bundle,
    store_blobs,
    store_bundle,
)
from vkbench_db.work.devices import Pause, pause, recalled, register_device, resume
from vkbench_db.work.estimates import Recent, recent_seconds
from vkbench_db.work.jobs import (
    DeviceLoad,
    InFlight,
    Picked,
    Returned,
    dispatched_before,
    in_flight,
    load,
    mark_running,
    pick,
    return_lost,
)
from vkbench_db.work.progress import Progress
from vkbench_db.work.results import StoredBatch, record
from vkbench_db.work.runs import (
    NewRun,
    add_jobs,
    cancel,
    cancelled_since,
    create_run,
    note_cancelled,
    run_progress,
)

__all__ = [
    "DeviceLoad",
    "InFlight",
    "NewRun",
    "Pause",
    "Picked",
    "Progress",
    "Recent",
    "Returned",
    "StoredBatch",
    "StoredBundle",
    "add_jobs",
    "bundles_named",
    "cancel",
    "cancelled_since",
    "create_run",
    "dispatched_before",
    "has_bundle",
    "in_flight",
    "load",
    "load_bundle",
    "mark_running",
    "note_cancelled",
    "pause",
    "pick",
    "recalled",
    "recent_seconds",
    "record",
    "register_device",
    "resume",
    "return_lost",
    "run_progress",
    "store_blobs",
    "store_bundle",
    "try_lead",
]
