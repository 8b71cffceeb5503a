"""Submitting: a selection becomes a run with all its jobs, in one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from sqlalchemy import Connection

from vkbench import wire
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench.job import PEERS, SHARDS, PlannedJob
from vkbench.run import Purpose, purpose_of_suite
from vkbench_db.database import Database
from vkbench_db.work.store import NewRun, add_jobs, create_run
from vkbench_scheduler.bundles import keep
from vkbench_scheduler.planning.own import on_its_track
from vkbench_scheduler.planning.plan import plan
from vkbench_scheduler.planning.selection import Selection
from vkbench_shaders.bundle import Bundle

_TAKEN = (PEERS, SHARDS)  # tracks of timings that no run of cases may join
_SOURCES = ("weights", "model", "own")  # of cases, other than the catalogue

Planner = Callable[[Selection, Sequence[DeviceFacts]], Iterable[PlannedJob]]


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """A run as it stands in the database."""

    run: NewRun
    jobs: int  # 0 if the idempotency key was used before


def submit(
    database: Database,
    selection: Selection,
    devices: Sequence[DeviceFacts],
    *,
    bundle: Bundle | None = None,
    user: str = "",
    label: str = "",
    tags: Mapping[str, Any] | None = None,
    purpose: Purpose | None = None,
    idempotency_key: str | None = None,
    planner: Planner = plan,
) -> Submitted:
    """Store the run of a selection on those of the known devices that it names.

    With a bundle its jobs run that bundle, which is stored with them. A second submission with
    one idempotency key is the first one. The planner makes the jobs from the selection.
    """
    with database.transaction() as tx:
        return submit_in(
            tx,
            selection,
            devices,
            bundle=bundle,
            user=user,
            label=label,
            tags=tags,
            purpose=purpose,
            idempotency_key=idempotency_key,
            planner=planner,
        )


def submit_in(
    tx: Connection,
    selection: Selection,
    devices: Sequence[DeviceFacts],
    *,
    bundle: Bundle | None = None,
    user: str = "",
    label: str = "",
    tags: Mapping[str, Any] | None = None,
    purpose: Purpose | None = None,
    idempotency_key: str | None = None,
    planner: Planner = plan,
) -> Submitted:
    """Like `submit`, in the caller's transaction; writes nothing if the selection is invalid."""
    selection = on_its_track(selection)
    if selection.track in _TAKEN:
        raise UsageError(f"the track {selection.track} is not for runs: give another --track")
    if bundle:
        selection = replace(selection, bundle=bundle.sha)
    jobs = planner(selection, devices)
    now = time.time()
    if bundle:
        keep(tx, bundle, now)
    run = create_run(
        tx,
        mode=selection.mode,
        selection=selection_json(selection),
        now=now,
        user=user,
        label=label,
        tags=tags,
        purpose=purpose or purpose_of_suite(selection.suite),
        priority=selection.priority,
        track=selection.track,
        idempotency_key=idempotency_key,
    )
    count = add_jobs(tx, run.id, jobs) if run.new else 0
    return Submitted(run=run, jobs=count)


def selection_json(selection: Selection) -> dict[str, Any]:
    """A selection as the JSON that the database stores; sources of cases only if it has any."""
    words = cast(dict[str, Any], wire.to_builtins(selection))
    return {k: v for k, v in words.items() if v is not None or k not in _SOURCES}
