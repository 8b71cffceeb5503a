"""`vkbench schedule`: work that comes again, nightly suites above all."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from vkbench.process.user import user_name
from vkbench.words.units import count_of
from vkbench_cli.groups import CommandGroup
from vkbench_cli.options.effort import Effort
from vkbench_cli.options.records import Selecting, Store
from vkbench_cli.options.spreading import spread
from vkbench_cli.show.printing import Limit, Output, show, show_newest
from vkbench_cli.show.telling import say, tell
from vkbench_cli.store import open_database, reading
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.watch.cron import check, next_slot
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

if TYPE_CHECKING:
    from vkbench_db.upkeep.schedules import Schedule

COLUMNS = (
    Column(key="name", heading="schedule", rank=Rank.KEY),
    Column(key="cron", heading="cron (UTC)"),
    Column(key="state", heading="state", rank=Rank.KEY),
    Column(key="next_due", heading="next due", kind=ValueKind.TIME),
    Column(key="last_slot", heading="last", kind=ValueKind.TIME),
    Column(key="last_run", heading="run"),
    Column(key="note", heading="note", prose=True),
    Column(key="user", heading="by", hidden=True),
    Column(key="created_at", heading="made", kind=ValueKind.TIME, hidden=True),
    Column(key="selection", heading="selection", hidden=True),
)
SLOTS = (
    Column(key="slot", heading="due", kind=ValueKind.TIME),
    Column(key="run", heading="run"),
    Column(key="note", heading="note", prose=True),
)
NOTHING_YET = "no schedule yet: `vkbench schedule add NAME --cron '0 2 * * *'` makes one"

Name = Annotated[str, Argument(metavar="NAME", help="Name of a schedule.")]

app = Typer(cls=CommandGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True)


@app.callback()
def group() -> None:
    """Submit runs again and again, at the times of a cron expression."""


@app.command()
@spread
def add(
    *,
    name: Annotated[str, Argument(metavar="NAME", help="Name of the new schedule.")],
    cron: Annotated[
        str,
        Option(
            metavar="EXPRESSION",
            help="Five fields: minute, hour, day of month, month, weekday; times are UTC.",
        ),
    ],
    selecting: Selecting,
    effort: Effort,
    driver: Annotated[
        str,
        Option(
            metavar="DRIVER",
            help="Run through this driver: a copy of yours, or one that hosts have; '*': each one.",
        ),
    ] = "",
    store: Store,
) -> None:
    """Add a schedule: the scheduler submits its cases whenever it is due.

    --device is resolved each time, so that devices added later take part. A device is skipped
    while it has unfinished jobs of the schedule's last run. If no scheduler ran at a due time,
    the newest missed time of the last day is made up for. --driver, too, is resolved each time;
    timings through several drivers join no history.

    \b
    vkbench schedule add nightly --cron '0 2 * * *' --suite quick --device '*'
    vkbench schedule add drivers --cron '0 4 * * 6' --suite spine --driver '*'
    """
    from vkbench_cli.builds import build_for_fleet, choose_cases, give_to_fleet
    from vkbench_cli.bundles import bundle_chosen
    from vkbench_cli.fleet_drivers import give_own_copy
    from vkbench_scheduler.watch import schedules

    now = time.time()
    check(cron)  # before the database: a slip of the pen needs none
    with open_database(store.settings()) as database:
        build = build_for_fleet(database, selecting.build, selecting.bundle)
        is_open = not selecting.chooses_cases()
        give_to_fleet(filter(None, [build]))
        word = give_own_copy(driver)
        with database.transaction() as tx:
            bundle = bundle_chosen(tx, selecting.build_own_kernel(), selecting.bundle)
            chosen = replace(selecting.selection(effort, bundle), driver=word)
            schedules.add(
                tx,
                name=name,
                cron=cron,
                selection=choose_cases(chosen, build, is_open=is_open),
                bundle=bundle,
                build=build,
                user=user_name(),
                now=now,
            )
    due = datetime.fromtimestamp(next_slot(cron, now) or now, UTC)
    tell(f"{name} is due at {due:%Y-%m-%d %H:%M} UTC")


@app.command("ls")
@spread
def list_(*, store: Store, output: Output) -> None:
    """List schedules: when each is due next, and its last run."""
    from vkbench_db.upkeep import schedules

    with reading(store.settings()) as tx:
        rows = [_row(schedule) for schedule in schedules.list_schedules(tx)]
    show(Table(columns=COLUMNS, rows=rows, nothing=NOTHING_YET), output)


@app.command("show")
@spread
def show_(*, name: Name, limit: Limit = None, store: Store, output: Output) -> None:
    """Show what a schedule runs, and each time it was due with its run, newest first."""
    from vkbench_db.upkeep import schedules

    most = output.most(limit)
    with reading(store.settings()) as tx:
        schedule = schedules.find(tx, name)
        slots = schedules.slots(tx, schedule.id, most + 1 if most else None)
    if not (output.json or output.csv):
        say(f"{schedule.name}, at {schedule.cron} (UTC): {_describe_selection(schedule)}")
    rows = [{"slot": slot.at, "run": slot.run, "note": slot.note} for slot in slots]
    show_newest(
        Table(columns=SLOTS, rows=rows, nothing="this schedule was not due yet"), output, most
    )


@app.command()
@spread
def rm(*, name: Name, store: Store) -> None:
    """Delete a schedule; its runs are kept."""
    from vkbench_db.upkeep import schedules

    with open_database(store.settings()) as database, database.transaction() as tx:
        schedules.remove(tx, schedules.find(tx, name).id)


@app.command()
@spread
def pause(*, name: Name, store: Store) -> None:
    """Pause a schedule: nothing is submitted until `resume`."""
    from vkbench_db.upkeep import schedules

    with open_database(store.settings()) as database, database.transaction() as tx:
        schedules.enable(tx, schedules.find(tx, name).id, False)


@app.command()
@spread
def resume(*, name: Name, store: Store) -> None:
    """Resume a paused schedule; missed times are not made up for."""
    from vkbench_db.upkeep import schedules
    from vkbench_scheduler.watch.schedules import resume as go_on

    now = time.time()
    with open_database(store.settings()) as database, database.transaction() as tx:
        go_on(tx, schedules.find(tx, name, now), now)


@app.command()
@spread
def fire(*, name: Name, store: Store) -> None:
    """Submit a schedule's run now and print its number; the next due time is unchanged."""
    from vkbench_cli.show.waiting import warn
    from vkbench_scheduler.watch.schedules import fire as run_now

    with open_database(store.settings()) as database:
        made = run_now(database, name, time.time())
        say(str(made.run.id))
        tell(f"run {made.run.id}: {count_of(made.jobs, 'job')} submitted")
        warn(database, f"run {made.run.id}", run=made.run.id)


def _describe_selection(schedule: Schedule) -> str:
    """The parts of its selection that are not the defaults."""
    from vkbench_scheduler.planning.submit import selection_json

    usual = selection_json(Selection())
    chosen = {
        key: ", ".join(map(str, value)) if isinstance(value, list) else value
        for key, value in schedule.selection.items()
        if value not in (usual.get(key), [])
    }
    if own := schedule.selection.get("own"):
        chosen["own"] = own["kernel"]
    return "; ".join(f"{key} {value}" for key, value in chosen.items()) or "the whole catalogue"


def _row(schedule: Schedule) -> dict[str, Cell]:

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
