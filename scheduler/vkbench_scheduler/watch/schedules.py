"""Submits scheduled work when it is due, once, even with several schedulers.

A slot is a time that the cron expression names, in UTC. Its row and its run are of one transaction,
so nothing in Redis and no memory of a process is needed: a scheduler that comes back sees which
slots it missed, runs the newest of them if that is not too old, and notes the others.

A clock that was ahead for a while took slots that lie in the future. They are not counted, so the
schedule goes on once the clock is right; when their time comes they are not run again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice

from sqlalchemy import Connection

from vkbench.device import DeviceFacts
from vkbench.errors import NothingToDo, ServiceUnreachable, UsageError, VkbenchError
from vkbench.messages import wire
from vkbench.process import log
from vkbench.programs.build import Build
from vkbench.run import Purpose, RunWords
from vkbench.selector import choose
from vkbench_db.ask import queries
from vkbench_db.ask.devices.names import named_devices, only_served
from vkbench_db.database import Database
from vkbench_db.upkeep import schedules
from vkbench_db.upkeep.schedules import Schedule
from vkbench_db.work.builds import store_build
from vkbench_scheduler.bundles import bundle_named, keep
from vkbench_scheduler.drivers import choose_through, find_devices
from vkbench_scheduler.planning.plan import EVERYTHING, plan, tasks
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.submit import (
    NO_DRIVER,
    Planner,
    Submitted,
    plan_through,
    selection_json,
    submit_in,
)
from vkbench_scheduler.planning.suites import suite_named
from vkbench_scheduler.watch.cron import check, slots_between
from vkbench_shaders.bundle import Bundle

GRACE_SECONDS = 86_400.0  # a slot that was missed is run until it is so old
SKEW_SECONDS = 60.0  # how far the clocks of hosts may be apart
NOTED = 100  # missed slots that are noted at a time; older ones are dropped

_log = logging.getLogger(__name__)


def add(
    tx: Connection,
    *,
    name: str,
    cron: str,
    selection: Selection,
    user: str,
    now: float,
    bundle: Bundle | None = None,
    build: Build | None = None,
) -> None:
    """Store a new schedule; raise now what would fail at every due time.

    The selection's bundle is one of the database, unless the caller brings it. Its driver is what
    hosts call one, `*` for each, or the whole hash of one that goes where its jobs go.
    """
    check(cron)
    if selection.driver and (build or selection.program or selection.peers):
        raise UsageError(NO_DRIVER)
    if build:
        store_build(tx, build)
        selection = replace(selection, bundle=build.sha, program=build.program)
    tasks(suite_named(selection.suite) if selection.suite else EVERYTHING, selection)
    if known := named_devices(tx):
        meant = [device.key for device in choose(selection.devices, known)]
        if selection.driver:
            find_devices(tx, selection.driver, meant)
    if bundle:
        keep(tx, bundle, now)
        selection = replace(selection, bundle=bundle.sha)
    elif selection.bundle and not build:
        selection = replace(selection, bundle=bundle_named(tx, selection.bundle).sha)
    schedules.add(tx, name=name, cron=cron, selection=selection_json(selection), user=user, now=now)


def step(database: Database, now: float) -> None:
    """Run the schedules that are due; one that fails says why and stops no other."""
    with database.reading() as tx:
        known = schedules.list_schedules(tx, now)
    for schedule in known:
        if schedule.is_enabled:
            try:
                _run_due(database, schedule, now)
            except ServiceUnreachable:
                raise  # the database is away, for all of them
            except Exception:
                _log.exception("schedule_failed")


def fire(database: Database, name: str, now: float) -> Submitted:
    """Run a schedule now, due or not; VkbenchError when it selects nothing."""
    with database.transaction() as tx:
        schedule = schedules.find(tx, name)
        if not schedules.take_slot(tx, schedule.id, now):
            raise UsageError(f"schedule '{name}' has just been fired")
        made, left_out = _submit_slot(tx, schedule, now)
        note = "; ".join(["fired by hand", *left_out])
        schedules.settle_slot(tx, schedule.id, now, made.run.id, note)
    return made


def resume(tx: Connection, schedule: Schedule, now: float) -> None:
    """Let a paused schedule go on; what came due meanwhile is not caught up with."""
    due = slots_between(schedule.cron, schedule.since, now, 1)
    if due and not schedule.is_enabled:
        schedules.take_slot(tx, schedule.id, due[0], "paused")
    schedules.enable(tx, schedule.id, True)


def _run_due(database: Database, schedule: Schedule, now: float) -> None:
    if schedule.since > now + SKEW_SECONDS:
        with database.transaction() as tx:
            schedules.begin(tx, schedule.id, now)
        return
    due = slots_between(schedule.cron, schedule.since, now, NOTED + 1)
    if not due:
        return
    with database.transaction() as tx:
        if not schedules.take_slot(tx, schedule.id, due[0]):
            return  # another scheduler's
        run, note = _outcome(tx, schedule, due[0], now)
        schedules.settle_slot(tx, schedule.id, due[0], run, note)
        for slot in islice(due, 1, None):
            schedules.take_slot(tx, schedule.id, slot, "missed")
    log.event(_log, "schedule_due", schedule=schedule.name, slot=_iso(due[0]), run=run, note=note)


def _outcome(tx: Connection, schedule: Schedule, slot: float, now: float) -> tuple[int | None, str]:
    if now - slot > GRACE_SECONDS:
        return None, "missed: no scheduler was there within a day"
    try:
        made, left_out = _submit_slot(tx, schedule, slot)
    except VkbenchError as error:  # nothing was stored: the plan is made before the run
        return None, str(error)
    return made.run.id, "; ".join(left_out)


def _submit_slot(tx: Connection, schedule: Schedule, slot: float) -> tuple[Submitted, list[str]]:
    """Submit a slot's run on the devices that its selectors mean now; says which were left out."""
    selection = wire.from_builtins(schedule.selection, Selection)
    keys = {device.key for device in only_served(choose(selection.devices, named_devices(tx)))}
    meant = [row.facts for row in queries.devices(tx) if row.key in keys]
    busy = schedules.unfinished_runs(tx, schedule.id)
    free = [facts for facts in meant if facts.key not in busy]
    left_out = [
        f"{facts.name} ({facts.key}) left out: run {busy[facts.key]} has jobs left there"
        for facts in meant
        if facts.key in busy
    ]
    if not free:
        raise NothingToDo("; ".join(left_out))
    made = _store_run(tx, schedule, selection, free, slot)
    return made, left_out


def _store_run(
    tx: Connection,
    schedule: Schedule,
    selection: Selection,
    devices: Sequence[DeviceFacts],
    slot: float,
) -> Submitted:
    selection = replace(selection, devices=tuple(facts.key for facts in devices))
    planner: Planner = plan
    if selection.driver:
        reached = find_devices(tx, selection.driver, selection.devices)
        selection = choose_through(selection, reached)
        planner = plan_through(reached)
    return submit_in(
        tx,
        selection,
        devices,
        planner=planner,
        words=RunWords(
            user=schedule.user,
            label=schedule.name,
            purpose=Purpose(about={"schedule": schedule.name, "slot": _iso(slot)}),
        ),
    )


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
