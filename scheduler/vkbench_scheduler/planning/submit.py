"""Submitting: a selection becomes a run with all its jobs.

A run of few jobs is stored in one transaction, one of many in parts: it is sent once it is whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, cast

from sqlalchemy import Connection

from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench.job import PEERS, SHARDS, PlannedJob
from vkbench.messages import wire
from vkbench.programs.build import Build
from vkbench.run import RunKind, RunWords, kind_of_suite
from vkbench_db.database import Database
from vkbench_db.work.arrivals import PART_JOBS, give_way, is_settled, store_jobs
from vkbench_db.work.builds import store_build
from vkbench_db.work.store import NewRun, add_jobs, create_run
from vkbench_scheduler.bundles import keep, keep_in_parts
from vkbench_scheduler.planning.own import on_its_track
from vkbench_scheduler.planning.plan import plan
from vkbench_scheduler.planning.selection import Selection
from vkbench_shaders.bundle import Bundle

_TAKEN = (PEERS, SHARDS)  # tracks of timings that no run of cases may join
NO_DRIVER = "--driver runs vkbench's own kernels: leave out --build and --peer"
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
    build: Build | None = None,
    words: RunWords = RunWords(),  # noqa: B008
    planner: Planner = plan,
) -> Submitted:
    """Store the run of a selection on those of the known devices that it names.

    With a bundle or a build, which are stored with them, its jobs run that. A second submission
    with one idempotency key is the first one. The planner makes the jobs from the selection.
    """
    selection = _check_selection(selection, bundle, build)
    jobs = iter(planner(selection, devices))
    first = list(islice(jobs, PART_JOBS))
    if bundle:
        keep_in_parts(database, bundle)
    while True:
        with database.transaction() as tx:
            if build:
                store_build(tx, build)
            run = _create(tx, selection, words)
            is_known = not run.new and is_settled(tx, run.id)
            if run.new and len(first) < PART_JOBS:
                return Submitted(run=run, jobs=add_jobs(tx, run.id, first))
        if run.new:
            return Submitted(run=run, jobs=store_jobs(database, run.id, chain(first, jobs)))
        if is_known:
            return Submitted(run=run, jobs=0)
        give_way(database, run.id)


def submit_in(
    tx: Connection,
    selection: Selection,
    devices: Sequence[DeviceFacts],
    *,
    bundle: Bundle | None = None,
    words: RunWords = RunWords(),  # noqa: B008
    planner: Planner = plan,
) -> Submitted:
    """Like `submit`, in the caller's transaction; writes nothing if the selection is invalid."""
    selection = _check_selection(selection, bundle, None)
    jobs = planner(selection, devices)
    if bundle:
        keep(tx, bundle, time.time())
    run = _create(tx, selection, words)
    count = add_jobs(tx, run.id, jobs) if run.new else 0
    return Submitted(run=run, jobs=count)


def plan_through(devices_of: Mapping[str, Sequence[str]]) -> Planner:
    """A planner of jobs that run through drivers: all of one, on its devices, then of the next."""

    def plan_drivers(selection: Selection, devices: Sequence[DeviceFacts]) -> Iterable[PlannedJob]:
        if selection.program or selection.peers:
            raise UsageError(NO_DRIVER)
        planned = []
        for sha, keys in devices_of.items():
            reached = [facts for facts in devices if facts.key in keys]
            theirs = replace(selection, devices=tuple(facts.key for facts in reached))
            planned.append((sha, plan(theirs, reached)))
        return (replace(job, driver=sha) for sha, jobs in planned for job in jobs)

    return plan_drivers


def _check_selection(selection: Selection, bundle: Bundle | None, build: Build | None) -> Selection:
    selection = on_its_track(selection)
    if selection.track in _TAKEN:
        raise UsageError(f"the track {selection.track} is not for runs: give another --track")
    if build:
        return replace(selection, bundle=build.sha, program=build.program)
    return replace(selection, bundle=bundle.sha) if bundle else selection


def _create(tx: Connection, selection: Selection, words: RunWords) -> NewRun:
    if words.purpose.kind is RunKind.WORK:
        kind = kind_of_suite(selection.suite)
        words = replace(words, purpose=replace(words.purpose, kind=kind))
    return create_run(
        tx,
        mode=selection.mode,
        selection=selection_json(selection),
        now=time.time(),
        priority=selection.priority,
        track=selection.track,
        words=words,
    )


def selection_json(selection: Selection) -> dict[str, Any]:
    """A selection as the JSON that the database stores; sources of cases only if it has any."""
    words = cast(dict[str, Any], wire.to_builtins(selection))
    return {k: v for k, v in words.items() if v is not None or k not in _SOURCES}
