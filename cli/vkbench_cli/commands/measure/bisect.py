"""`vkbench bisect`: the first bundle or revision that made a case slower, or wrong, or fail."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Option, Typer

from vkbench.errors import EXIT_INTERRUPTED, UsageError, VkbenchError
from vkbench.process.user import user_name
from vkbench_cli.builds import workshop_of
from vkbench_cli.groups import CommandGroup
from vkbench_cli.machine import open_alone
from vkbench_cli.options.bisect_options import BisectOptions, begin, begin_here, check
from vkbench_cli.options.records import Devices, Store
from vkbench_cli.options.spreading import spread
from vkbench_cli.show.printing import Limit, Output, show, show_newest
from vkbench_cli.show.telling import say, tell
from vkbench_cli.store import open_database, reading
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

if TYPE_CHECKING:
    from vkbench_db.database import Database
    from vkbench_db.upkeep.bisections import Bisection

COLUMNS = (
    Column(key="id", heading="bisection", rank=Rank.KEY),
    Column(key="state", heading="state", rank=Rank.KEY),
    Column(key="case", heading="case", rank=Rank.KEY),
    Column(key="metric", heading="metric", lifted=True),
    Column(key="bundles", heading="points", kind=ValueKind.COUNT),
    Column(key="steps", heading="steps", kind=ValueKind.COUNT),
    Column(key="first_bad", heading="first bad", rank=Rank.KEY),
    Column(key="created_at", heading="begun", kind=ValueKind.TIME),
    Column(key="finished_at", heading="ended", kind=ValueKind.TIME, hidden=True),
    Column(key="note", heading="note", prose=True),
    Column(key="variant", heading="variant", hidden=True),
    Column(key="devices", heading="devices", hidden=True),
    Column(key="user", heading="by", hidden=True),
    Column(key="regression", heading="regression", hidden=True),
)
STEPS = (
    Column(key="position", heading="", kind=ValueKind.COUNT),
    Column(key="label", heading="bundle", rank=Rank.KEY),
    Column(key="verdict", heading="verdict", rank=Rank.KEY),
    Column(key="ratio", heading="new/old", kind=ValueKind.NUMBER),
    Column(key="low", heading="low", kind=ValueKind.NUMBER, rank=Rank.MINOR),
    Column(key="high", heading="high", kind=ValueKind.NUMBER, joined=True),
    Column(key="p", heading="p", kind=ValueKind.NUMBER, rank=Rank.MINOR),
    Column(key="pairs", heading="pairs", kind=ValueKind.COUNT),
    Column(key="run", heading="run"),
    Column(key="note", heading="note", prose=True),
    Column(key="sha", heading="SHA-256", hidden=True),
    Column(key="is_first_bad", heading="first bad", hidden=True),
)
NOTHING_YET = "no bisection yet: `vkbench bisect --case NAME --revisions GOOD..BAD` begins one"

Number = Annotated[int, Argument(metavar="ID", help="Number of a bisection.")]

app = Typer(cls=CommandGroup, rich_markup_mode=None, add_completion=False)


@app.callback(invoke_without_command=True)
@spread
def bisect(
    *,
    context: Context,
    options: BisectOptions,
    device: Devices = [],  # noqa: B006 - Typer's own copy
    submit: Annotated[
        bool,
        Option(
            "--submit", help="Let the fleet's workers do it; prints the number of the bisection."
        ),
    ] = False,
    resume: Annotated[
        int,
        Option(
            metavar="ID", help="Continue a bisection whose command was stopped on this machine."
        ),
    ] = 0,
    store: Store,
    output: Output,
) -> int:
    """Find the bundle, build, driver or revision that made a case slower, wrong or crash.

    Give bundles in order, or builds of a program, or drivers of this machine, or a range of git
    revisions of a shader tree; of each revision only the code of this case is compiled. With
    --program, the revisions are those of a program, and the few that are needed are built by its
    own command on this machine; with --driver-file they are those of a driver, such as Mesa, which
    the file says how to build. Each candidate is timed against the good one in 4 to 48 pairs (old,
    new, new, old). A candidate that cannot be judged is skipped. If the last candidate crashes or
    loses the device, the first one that does so is looked for. If the good revision is the newer,
    the one that mended it is. With --submit, identical devices of
    the fleet share the work; a command that builds stays, and sends them each build when they need
    it.

    \b
    vkbench bisect --case copy/f32/n4096 --revisions v1.0..main --repository .
    vkbench bisect --case copy/f32/n4096 --bundles 1a2b,3c4d,5e6f --submit
    vkbench bisect --case get_rows/q4_K/m32000_n512_k4096 --builds b8121,b8390
    vkbench bisect --case copy/f32/n4096 --drivers mesa-25.0,mesa-26.1
    vkbench bisect --case copy/f32/n4096 --program ggml-vulkan --revisions b8..b9
    vkbench bisect --case copy/f32/n4096 --driver-file mesa.toml --revisions A..B
    vkbench bisect --regression 7 --submit
    """
    if context.invoked_subcommand:
        return 0
    if resume and options != BisectOptions():
        raise UsageError("--resume continues a bisection unchanged: leave out the other options")
    if not (resume or options.regression):
        check(options)
    if submit and (resume or options.makes_arms):
        return _feed_fleet(options, device, resume, store, output)
    if submit:
        return _submit(options, device, store)
    return _search_here(options, device, resume, store, output)


@app.command("ls")
@spread
def list_(*, limit: Limit = None, store: Store, output: Output) -> None:
    """List bisections, newest first."""
    from vkbench_db.upkeep import bisections

    most = output.most(limit)
    with reading(store.settings()) as tx:
        listed = bisections.list_bisections(tx, most + 1 if most else None)
    rows = [_row(bisection) for bisection in listed]
    show_newest(Table(columns=COLUMNS, rows=rows, nothing=NOTHING_YET), output, most)


@app.command("show")
@spread
def show_(*, number: Number, store: Store, output: Output) -> int:
    """Show the verdict on each bundle or build of a bisection."""
    from vkbench_db.upkeep import bisections

    with reading(store.settings()) as tx:
        return _show_bisection(bisections.find(tx, number), output)


@app.command()
@spread
def stop(*, number: Number, store: Store) -> None:
    """Stop a bisection and cancel its jobs."""
    from vkbench_db.upkeep import bisections
    from vkbench_scheduler.watch.bisect import stop as end

    with open_database(store.settings()) as database:
        with database.reading() as tx:
            bisections.find(tx, number)
        end(database, number, user_name(), time.time())


def _submit(options: BisectOptions, device: list[str], store: Store) -> int:
    with open_database(store.settings()) as database:
        number = _begin_in_fleet(database, options, device)
        say(str(number))
        tell(f"bisection {number}: `vkbench bisect show {number}`")
        _warn_of_absence(database, number)
    return 0


def _begin_in_fleet(database: Database, options: BisectOptions, device: list[str]) -> int:
    from vkbench_db.ask.devices.names import served_keys

    with database.reading() as tx:
        keys = served_keys(tx, device or options.devices(tx))
    return begin(database, options, keys, of_fleet=True)


def _warn_of_absence(database: Database, number: int) -> None:
    """Tell which service has to be started before a bisection of the fleet goes on."""
    from vkbench_cli.show.waiting import warn
    from vkbench_db.upkeep import bisections

    with database.reading() as tx:
        devices = bisections.find(tx, number).devices
    warn(database, f"bisection {number}", devices=devices)


def _feed_fleet(
    options: BisectOptions, device: list[str], resume: int, store: Store, output: Output
) -> int:
    """Make builds for a bisection of the fleet as it asks for them, and show how it ends."""
    from vkbench_cli.show.waiting import wait_for
    from vkbench_db.upkeep import bisections
    from vkbench_detection.steps import require
    from vkbench_local.bisect import feed

    require()
    settings = store.settings()
    with open_database(settings) as database:
        number = resume or _begin_in_fleet(database, options, device)
        try:
            _require_source(database, number)
            tell(f"bisection {number}: this command makes its builds; the fleet times them")
            _warn_of_absence(database, number)
            workshop = workshop_of(settings, of_fleet=True)
            feed(database, number, workshop, partial(wait_for, database))
        except KeyboardInterrupt:
            where = f" --database {store.database}" if store.database else ""
            again = f"`vkbench bisect --resume {number} --submit{where}`"
            tell(f"bisection {number} waits for its next build: {again} makes it")
            return EXIT_INTERRUPTED
        with database.reading() as tx:
            return _show_bisection(bisections.find(tx, number), output)


def _require_source(database: Database, number: int) -> None:
    """UsageError unless a bisection needs builds of this machine."""
    from vkbench_db.upkeep import bisections

    with database.reading() as tx:
        if not bisections.find(tx, number).source:
            raise UsageError(
                f"bisection {number} has all its candidates: leave out --submit, if it is of this "
                "machine; the fleet goes on with its own"
            )


def _search_here(
    options: BisectOptions, device: list[str], resume: int, store: Store, output: Output
) -> int:
    from vkbench_cli.show.waiting import RunProgress
    from vkbench_db.upkeep import bisections
    from vkbench_detection.steps import require
    from vkbench_local.bisect import devices_of, search

    require()
    settings = store.settings()
    with open_alone(settings) as database:
        number = resume or begin_here(database, options, device, settings)
        devices = devices_of(database, number)
        show_run, workshop = partial(RunProgress, database), workshop_of(settings)
        if not search(database, settings, number, devices, show_run, workshop):
            where = f" --database {store.database}" if store.database else ""
            tell(f"stopped; `vkbench bisect --resume {number}{where}` continues")
            return EXIT_INTERRUPTED
        with database.reading() as tx:
            return _show_bisection(bisections.find(tx, number), output)


def _show_bisection(bisection: Bisection, output: Output) -> int:
    from vkbench_db.upkeep.bisections import FAILED

    kind = bisection.candidates[0].kind
    columns = [replace(c, heading=kind) if c.key == "label" else c for c in STEPS]
    show(Table(columns=columns, rows=_steps(bisection)), output)
    if bisection.source:
        made = sum(candidate.is_made for candidate in bisection.candidates)
        tell(f"{made} of {len(bisection.candidates)} revisions were built")
    tell(f"bisection {bisection.id} {bisection.state}: {bisection.note or 'goes on'}")
    return VkbenchError.exit_code if bisection.state == FAILED else 0


def _row(bisection: Bisection) -> dict[str, Cell]:
    from vkbench_db.upkeep.bisections import FOUND

    return {
        "id": bisection.id,
        "state": bisection.state,
        "case": bisection.case,
        "metric": bisection.metric,
        "bundles": len(bisection.candidates),
        "steps": len(bisection.steps),
        "first_bad": bisection.candidates[bisection.high].label
        if bisection.state == FOUND and not bisection.newest_first
        else None,
        "created_at": bisection.created_at,
        "finished_at": bisection.finished_at,
        "note": bisection.note,
        "variant": bisection.variant,
        "devices": bisection.devices,
        "user": bisection.user,
        "regression": bisection.regression,
    }


def _steps(bisection: Bisection) -> list[dict[str, Cell]]:
    """A row for every bundle in their order, also for those that were not tried."""
    from vkbench_db.upkeep.bisections import FOUND

    rows: list[dict[str, Cell]] = []
    for place, candidate in enumerate(bisection.candidates):
        row: dict[str, Cell] = {
            "position": place,
            "label": candidate.label,
            "sha": candidate.sha,
            "note": candidate.note,
            "verdict": "" if place else "taken as good",
            "is_first_bad": bisection.state == FOUND
            and place == bisection.high
            and not bisection.newest_first,
        }
        rows.append(row | (_describe_step(bisection, place) if place else {}))
    return rows


def _describe_step(bisection: Bisection, place: int) -> dict[str, Cell]:
    """What is known of a candidate: by its own step, or by one of the same files."""
    from vkbench_detection.bisect.course import note_of

    sha = bisection.candidates[place].sha
    if sha and sha == bisection.candidates[0].sha:
        return {"verdict": "good", "note": _same_files(bisection, 0)}
    step = bisection.step_of(place)
    if step is None:
        return {}
    if step.position != place:
        return {"verdict": step.verdict, "note": _same_files(bisection, step.position)}
    return {
        "verdict": step.verdict or "running",
        "ratio": step.ratio,
        "low": step.low,
        "high": step.high,
        "p": step.p,
        "pairs": step.pairs,
        "run": step.run,
        "note": note_of(bisection, step),
    }


def _same_files(bisection: Bisection, place: int) -> str:
    return f"the same files as {bisection.candidates[place].label}"
