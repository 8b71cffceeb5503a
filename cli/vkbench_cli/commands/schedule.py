"""`vkbench schedule`: work that comes again, nightly suites above all."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from vkbench_cli.layout import Rank
from vkbench_cli.options import Effort, Limit, Output, Selecting, Store, spread
from vkbench_cli.printing import Cell, Column, Kind, Table, show, show_newest

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from vkbench_db.schedules import Schedule
    from vkbench_scheduler.selection import Selection
    from vkbench_shaders.bundle import Bundle

COLUMNS = (
    Column(key="name", heading="schedule", rank=Rank.KEY),
    Column(key="cron", heading="cron (UTC)"),
    Column(key="state", heading="state", rank=Rank.KEY),
    Column(key="next_due", heading="next due", kind=Kind.TIME),
    Column(key="last_slot", heading="last", kind=Kind.TIME),
    Column(key="last_run", heading="run"),
    Column(key="note", heading="note", prose=True),
    Column(key="user", heading="by", hidden=True),
    Column(key="created_at", heading="made", kind=Kind.TIME, hidden=True),
    Column(key="selection", heading="selection", hidden=True),
)
SLOTS = (
    Column(key="slot", heading="due", kind=Kind.TIME),
    Column(key="run", heading="run"),
    Column(key="note", heading="note", prose=True),
)
NOTHING_YET = "no schedule yet: `vkbench schedule add NAME --cron '0 2 * * *'` makes one"

Name = Annotated[str, Argument(metavar="NAME", help="Name of a schedule.")]

app = Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)


@app.callback()
def group() -> None:
    """Do work again at times of a cron expression."""


@app.command()
@spread
def add(
    *,
    name: Annotated[str, Argument(metavar="NAME", help="What to call it.")],
    cron: Annotated[
        str,
        Option(metavar="EXPRESSION", help="Minute, hour, day, month and weekday, in UTC."),
    ],
    selecting: Selecting,
    effort: Effort,
    store: Store,
) -> None:
    """Submit a selection at certain times; the scheduler does it.

    Devices are chosen when the time comes, so that a new one of the lab takes part. A device that
    still has jobs of the schedule's last run is left out. Of times that passed without a scheduler
    the newest is caught up with, for a day.

    \b
    vkbench schedule add nightly --cron '0 2 * * *' --suite quant-perf --device 'NVIDIA*'
    """
    from vkbench_cli.store import bundle_named, opened, user_name
    from vkbench_db import schedules
    from vkbench_scheduler.cron import check, next_slot
    from vkbench_scheduler.submit import told

    selection = selecting.selection(effort)
    check(cron)
    _check_selection(selection)
    now = time.time()
    with opened(store.settings()) as database, database.transaction() as tx:
        _check_devices(tx, selection)
        bundle = bundle_named(tx, selecting.bundle)
        if bundle:
            selection = _with_bundle(tx, selection, bundle, now)
        schedules.add(
            tx, name=name, cron=cron, selection=told(selection), user=user_name(), now=now
        )
    due = datetime.fromtimestamp(next_slot(cron, now) or now, UTC)
    print(f"{name} is due at {due:%Y-%m-%d %H:%M} UTC", file=sys.stderr)


@app.command("ls")
@spread
def list_(*, store: Store, output: Output) -> None:
    """List schedules: when they are due, and what came of the last time."""
    from vkbench_cli.store import reading
    from vkbench_db import schedules

    with reading(store.settings()) as tx:
        rows = [_row(schedule) for schedule in schedules.listed(tx)]
    show(Table(columns=COLUMNS, rows=rows, nothing=NOTHING_YET), output)


@app.command("show")
@spread
def show_(*, name: Name, limit: Limit = None, store: Store, output: Output) -> None:
    """Show what a schedule asks for and when it came due, newest first, with the runs of it."""
    from vkbench_cli.store import reading
    from vkbench_db import schedules

    most = output.most(limit)
    with reading(store.settings()) as tx:
        schedule = schedules.find(tx, name)
        found = schedules.slots(tx, schedule.id, most + 1 if most else None)
    if not (output.json or output.csv):
        print(f"{schedule.name}, at {schedule.cron} (UTC): {_asked(schedule)}")
    rows = [{"slot": slot.at, "run": slot.run, "note": slot.note} for slot in found]
    show_newest(Table(columns=SLOTS, rows=rows, nothing="it was not due yet"), output, most)


@app.command()
@spread
def rm(*, name: Name, store: Store) -> None:
    """Remove a schedule; its runs stay."""
    from vkbench_cli.store import opened
    from vkbench_db import schedules

    with opened(store.settings()) as database, database.transaction() as tx:
        schedules.remove(tx, schedules.find(tx, name).id)


@app.command()
@spread
def pause(*, name: Name, store: Store) -> None:
    """Let a schedule's times pass."""
    from vkbench_cli.store import opened
    from vkbench_db import schedules

    with opened(store.settings()) as database, database.transaction() as tx:
        schedules.enable(tx, schedules.find(tx, name).id, False)


@app.command()
@spread
def resume(*, name: Name, store: Store) -> None:
    """Let a paused schedule go on; what passed is not caught up with."""
    from vkbench_cli.store import opened
    from vkbench_db import schedules
    from vkbench_scheduler.schedules import resume as go_on

    with opened(store.settings()) as database, database.transaction() as tx:
        go_on(tx, schedules.find(tx, name), time.time())


@app.command()
@spread
def fire(*, name: Name, store: Store) -> None:
    """Run a schedule now; prints the number of the run. It still runs when it is due."""
    from vkbench_cli.absence import warn
    from vkbench_cli.store import opened
    from vkbench_scheduler.schedules import fire as run_now

    with opened(store.settings()) as database:
        made = run_now(database, name, time.time())
        print(made.run.id)
        print(f"run {made.run.id}: {made.jobs} jobs submitted", file=sys.stderr)
        warn(database, f"run {made.run.id}", run=made.run.id)


def _check_selection(selection: Selection) -> None:
    """Says now what would be said every night."""
    from vkbench_scheduler.plan import EVERYTHING, tasks
    from vkbench_scheduler.suites import suite_named

    tasks(suite_named(selection.suite) if selection.suite else EVERYTHING, selection)


def _check_devices(tx: Connection, selection: Selection) -> None:
    """Refuses now what means no device, or may mean several; a fleet still without any may grow."""
    from vkbench.selector import choose
    from vkbench_db.device_names import named_devices

    known = named_devices(tx)
    if known:
        choose(selection.devices, known)


def _with_bundle(tx: Connection, selection: Selection, bundle: Bundle, now: float) -> Selection:
    from vkbench_scheduler.bundles import keep

    keep(tx, bundle, now)
    return replace(selection, bundle=bundle.sha)


def _asked(schedule: Schedule) -> str:
    """The parts of its selection that somebody chose."""
    from vkbench_scheduler.selection import Selection
    from vkbench_scheduler.submit import told

    usual = told(Selection())
    chosen = {
        key: ", ".join(map(str, value)) if isinstance(value, list) else value
        for key, value in schedule.selection.items()
        if value not in (usual.get(key), [])
    }
    return "; ".join(f"{key} {value}" for key, value in chosen.items()) or "all there is"


def _row(schedule: Schedule) -> dict[str, Cell]:
    from vkbench_scheduler.cron import next_slot

    last = schedule.last
    return {
        "name": schedule.name,
        "cron": schedule.cron,
        "state": "waiting" if schedule.is_enabled else "paused",
        "next_due": next_slot(schedule.cron, time.time()) if schedule.is_enabled else None,
        "last_slot": last.at if last else None,
        "last_run": last.run if last else None,
        "note": last.note if last else "",
        "user": schedule.user,
        "created_at": schedule.created_at,
        "selection": schedule.selection,
    }
