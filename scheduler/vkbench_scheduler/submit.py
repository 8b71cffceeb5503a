"""Submitting: a selection becomes a run with all its jobs, in one transaction."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from vkbench import wire
from vkbench.device import DeviceFacts
from vkbench_db.database import Database
from vkbench_db.store import NewRun, StoredBundle, add_jobs, create_run, store_bundle
from vkbench_scheduler.plan import plan
from vkbench_scheduler.selection import Selection
from vkbench_shaders.bundle import Bundle


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """A run as it stands in the database."""

    run: NewRun
    jobs: int  # 0 when the same submission was there before


def submit(
    database: Database,
    selection: Selection,
    devices: Sequence[DeviceFacts],
    *,
    bundle: Bundle | None = None,
    user: str = "",
    label: str = "",
    tags: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Submitted:
    """Store the run of a selection on those of the known devices that it names.

    With a bundle its jobs run that bundle, which is stored with them. A second submission with
    one idempotency key is the first one.
    """
    if bundle:
        selection = replace(selection, bundle=bundle.sha)
    jobs = plan(selection, devices)
    now = time.time()
    with database.transaction() as tx:
        if bundle:
            store_bundle(tx, _stored(bundle), now)
        run = create_run(
            tx,
            mode=selection.mode,
            selection=_told(selection),
            now=now,
            user=user,
            label=label,
            tags=tags,
            priority=selection.priority,
            idempotency_key=idempotency_key,
        )
        count = add_jobs(tx, run.id, jobs) if run.new else 0
    return Submitted(run=run, jobs=count)


def _told(selection: Selection) -> dict[str, Any]:
    """A selection as it is stored; the tensor only where there is one."""
    told = cast(dict[str, Any], wire.to_builtins(selection))
    return told if selection.weights else {k: v for k, v in told.items() if k != "weights"}


def _stored(bundle: Bundle) -> StoredBundle:
    return StoredBundle(sha=bundle.sha, name=bundle.name, manifest=bundle.text, blobs=bundle.blobs)
