"""All functions that write runs, jobs and results: only these change the state of a job."""

from __future__ import annotations

from vkbench_db.database import try_lead
from vkbench_db.work.bundles import (
    StoredBundle,
    bundles_named,
    has_bundle,
    load_bundle,
    note_revisions,
    store_blobs,
    store_bundle,
)
from vkbench_db.work.devices import (
    Pause,
    note_seen,
    pause,
    recalled_devices,
    register_device,
    register_devices,
    resume,
)
from vkbench_db.work.estimates import Recent, recent_seconds
from vkbench_db.work.jobs import Picked, Wanted, pick, pick_all
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
from vkbench_db.work.sent import (
    InFlight,
    Returned,
    dispatched_before,
    in_flight,
    mark_running,
    return_lost,
)
from vkbench_db.work.windows import DeviceLoad, awaited_devices, loads
