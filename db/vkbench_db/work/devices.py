"""Devices: registered by what their workers announce, paused and resumed by people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter, itemgetter
from typing import Any

from sqlalchemy import Column, Connection, bindparam, func, select, update

from vkbench.device import DeviceFacts, Environment
from vkbench.messages.wire import Announcement, to_builtins
from vkbench_db import schema
from vkbench_db.batches import batches
from vkbench_db.rows import insert_missing

SCHEDULER = "scheduler"  # who pauses a device that seems broken


@dataclass(frozen=True, kw_only=True)
class Pause:
    """Why a device gets no more jobs."""

    reason: str = ""
    by: str = ""  # a user, or SCHEDULER
    at: float | None = None
    recall: bool = False  # its worker hands back what it holds, the running job too


def register_device(tx: Connection, announcement: Announcement, now: float) -> int:
    """Store that a worker serves a device, and the facts of both; return the device's id."""
    return register_devices(tx, [announcement], now)[announcement.facts.key]


def register_devices(
    tx: Connection, announcements: Iterable[Announcement], now: float
) -> Mapping[str, int]:
    """Store that workers serve these devices, and the facts of all; return the ids by key.

    However many there are, the number of statements is the same.
    """
    newest = {announcement.facts.key: announcement for announcement in announcements}
    hashes = _store_environments(tx, [heard.environment for heard in newest.values()])
    _store_environments(tx, [through for heard in newest.values() for through in heard.through])
    ids = _store_devices(tx, [heard.facts for heard in newest.values()])
    device = schema.device
    values = [
        {
            "known": ids[heard.facts.key],
            "new_name": heard.facts.name,
            "new_facts": to_builtins(heard.facts),
            "new_worker": heard.worker,
            "new_bundle": heard.bundle,
            "new_environment": sha,
            "new_last_seen": now,
            "new_drivers": to_builtins(heard.drivers),
            "new_own_drivers": to_builtins(heard.own_drivers),
        }
        for heard, sha in zip(newest.values(), hashes, strict=True)
    ]
    columns = (
        *("name", "facts", "worker", "bundle", "environment", "last_seen"),
        *("drivers", "own_drivers"),
    )
    tx.execute(
        update(device)
        .where(device.c.id == bindparam("known"))
        .values({name: bindparam(f"new_{name}") for name in columns}),
        sorted(values, key=itemgetter("known")),  # all transactions lock rows in this order
    )
    return ids


def note_seen(tx: Connection, devices: Iterable[int], now: float) -> int:
    """Note that workers still serve the devices of these ids; return how many of them are known."""
    device, known = schema.device, 0
    for batch in batches(sorted(devices)):
        in_order = select(device.c.id).where(device.c.id.in_(batch)).order_by(device.c.id)
        locked = in_order.with_for_update(key_share=True)
        seen = update(device).where(device.c.id.in_(locked)).values(last_seen=now)
        known += tx.execute(seen).rowcount
    return known


def store_device(tx: Connection, facts: DeviceFacts) -> int:
    """Store a device if it is new, and leave a known one as it is; return its id."""
    return _store_devices(tx, [facts])[facts.key]


def _store_devices(tx: Connection, devices: Sequence[DeviceFacts]) -> dict[str, int]:
    known = _ids(tx, schema.device.c.key, {facts.key for facts in devices})
    new = [facts for facts in devices if facts.key not in known]
    if not new:
        return known
    names = sorted({facts.host for facts in new})
    insert_missing(tx, schema.host, [{"name": name} for name in names])
    hosts = _ids(tx, schema.host.c.name, names)
    rows = [
        {
            "key": facts.key,
            "host_id": hosts[facts.host],
            "name": facts.name,
            "facts": to_builtins(facts),
        }
        for facts in sorted(new, key=attrgetter("key"))
    ]
    insert_missing(tx, schema.device, rows)
    return known | _ids(tx, schema.device.c.key, {facts.key for facts in new})


def _ids(tx: Connection, name: Column[str], names: Iterable[str]) -> dict[str, int]:
    """The ids of the rows of a table that have these names."""
    ids: dict[str, int] = {}
    for batch in batches(sorted(names)):
        rows = tx.execute(select(name, name.table.c.id).where(name.in_(batch)))
        ids.update((row[0], row[1]) for row in rows)
    return ids


def store_environment(tx: Connection, environment: Environment) -> str:
    """Store an environment if it is new; return its hash."""
    return _store_environments(tx, [environment])[0]


def _store_environments(tx: Connection, environments: Sequence[Environment]) -> list[str]:
    """Store those that are new; return the hashes of all, in their order."""
    hashes = [environment.hash for environment in environments]
    by_hash = dict(zip(hashes, environments, strict=True))
    column = schema.environment.c.hash
    known: set[str] = set()
    for batch in batches(sorted(by_hash)):
        known.update(tx.execute(select(column).where(column.in_(batch))).scalars())
    rows: list[dict[str, Any]] = [
        {
            "hash": sha,
            "driver": by_hash[sha].driver,
            "driver_version": by_hash[sha].driver_version,
            "facts": asdict(by_hash[sha]),
        }
        for sha in sorted(by_hash.keys() - known)
    ]
    insert_missing(tx, schema.environment, rows)
    return hashes


def note_environments(tx: Connection, devices: Iterable[int]) -> None:
    """Give devices that no worker here has announced the environment of their newest attempt."""
    job, attempt, device = schema.job.c, schema.attempt.c, schema.device.c
    newest = (
        select(attempt.environment)
        .join(schema.job, job.id == attempt.job_id)
        .where(job.device_id == device.id, attempt.environment != "")
        .order_by(attempt.recorded_at.desc())
        .limit(1)
        .scalar_subquery()
    )
    tx.execute(
        update(schema.device)
        .where(device.id.in_(tuple(devices)), device.last_seen.is_(None))
        .values(environment=func.coalesce(newest, device.environment))
    )


def pause(tx: Connection, device: str, given: Pause) -> bool:
    """Stop sending jobs to a device; return whether there is such a device."""
    changed = tx.execute(
        update(schema.device)
        .where(schema.device.c.key == device)
        .values(
            paused=True,
            paused_reason=given.reason,
            paused_by=given.by,
            paused_at=given.at,
            recalled=given.recall,
            on_trial=False,
            pause_told_at=None,
        )
    )
    return changed.rowcount > 0


def resume(tx: Connection, device: str, now: float, *, as_is: bool = False) -> bool:
    """Send jobs to a device again; return whether it is on trial.

    One that a scheduler had paused is, until a job passes on it; not if it is taken as it is.
    """
    table = schema.device.c
    row = tx.execute(
        select(table.paused, table.paused_by, table.on_trial).where(table.key == device)
    ).one()
    suspected = row.on_trial or (row.paused and row.paused_by == SCHEDULER)
    on_trial: bool = suspected and not as_is
    tx.execute(
        update(schema.device)
        .where(table.key == device)
        .values(
            paused=False,
            paused_reason="",
            paused_by="",
            paused_at=None,
            recalled=False,
            resumed_at=now,
            on_trial=on_trial,
        )
    )
    return on_trial


def recalled_devices(tx: Connection) -> list[str]:
    """Keys of the devices whose workers are to hand back what they hold."""
    device = schema.device.c
    return list(tx.execute(select(device.key).where(device.recalled).order_by(device.id)).scalars())
