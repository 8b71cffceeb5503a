"""Everything that writes runs, jobs and results, under one name: the store alone moves states."""

from __future__ import annotations

from vkbench_db.bundles import (
    StoredBundle,
    bundles_named,
    has_bundle,
    load_bundle,
    store_bundle,
)
from vkbench_db.database import try_lead
from vkbench_db.devices import pause, register_device
from vkbench_db.estimates import Recent, recent_seconds
from vkbench_db.jobs import (
    InFlight,
    Load,
    Picked,
    Returned,
    dispatched_before,
    load,
    mark_running,
    pick,
    return_lost,
)
from vkbench_db.progress import Progress
from vkbench_db.results import Recorded, record
from vkbench_db.runs import (
    NewRun,
    add_jobs,
    cancel,
    cancelled_since,
    create_run,
    run_progress,
)

__all__ = [
    "InFlight",
    "Load",
    "NewRun",
    "Picked",
    "Progress",
    "Recent",
    "Recorded",
    "Returned",
    "StoredBundle",
    "add_jobs",
    "bundles_named",
    "cancel",
    "cancelled_since",
    "create_run",
    "dispatched_before",
    "has_bundle",
    "load",
    "load_bundle",
    "mark_running",
    "pause",
    "pick",
    "recent_seconds",
    "record",
    "register_device",
    "return_lost",
    "run_progress",
    "store_bundle",
    "try_lead",
]
