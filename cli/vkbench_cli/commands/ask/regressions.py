"""`vkbench regressions`: what became slower, wrong or faster or fails, and who works on it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from vkbench.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_REGRESSION, NothingToDo
from vkbench.job import SHARDS
from vkbench.process.user import user_name
from vkbench.words import names
from vkbench.words.units import count_of, list_counts
from vkbench_cli import completion
from vkbench_cli.groups import CommandGroup
from vkbench_cli.options.records import Devices, Store
from vkbench_cli.options.spreading import spread
from vkbench_cli.show.printing import Limit, Output, show, show_first
from vkbench_cli.show.progress import CountedProgress
from vkbench_cli.show.telling import Elapsed, hand_over, say, say_command, tell
from vkbench_cli.store import open_database, reading
from vkbench_detection.changes.states import UNCERTAIN, UNDECIDED
from vkbench_detection.regress.stages import RegressionStage
from vkbench_tables.regressions import (
    ALERTS,
    DIRECTIONS,
    EVENTS,
    MEMBERS,
    ROWS,
    STATES,
    STORY,
    SUSPECTED,
    choose_worst,
    list_commands,
    member_row,
    short_member,
    sort_worst_first,
    story_row,
)
from vkbench_tables.table import Cell, Table

if TYPE_CHECKING:
    from vkbench_detection.regress.inbox import RegressionRow

app = Typer(cls=CommandGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True)

SHOWN = STATES[:3]  # what users have to look at
BAD = ("slower", "wrong", "failed")
KERNELS_SHOWN = 2
NOTHING_YET = "no results yet: `vkbench run` makes some, which later ones are held against"
NONE_OPEN = "no regression to look at: `vkbench regressions ls --all` lists those that are over too"
NONE_AT_ALL = "no regression: nothing that was measured became slower, wrong or failed for certain"
NONE_SUSPECTED = "no change is suspected: times are judged from the third result of a series on"

Number = Annotated[int, Argument(metavar="ID", help="A regression, by its number.")]
Numbers = Annotated[list[int], Argument(metavar="ID...", help="Regressions, by their numbers.")]
Note = Annotated[str, Option(metavar="TEXT", help="Comment to store with the change of state.")]


class FailOn(StrEnum):
    """What makes `ls` fail."""

    OPEN = "open"
    NEVER = "never"


@app.callback()
def group() -> None:
    """List what became slower, wrong or faster, or fails now; acknowledge or close it."""


@app.command("ls")
@spread
def list_(
    *,
    state: Annotated[
        list[str],
        Option(
            metavar="STATE",
            help="Only regressions in this state, such as open or fixed; may be repeated.",
        ),
    ] = [],  # noqa: B006
    direction: Annotated[
        list[str],
        Option(
            metavar="D",
            help="Only this direction: slower, faster, wrong or failed; may be repeated.",
        ),
    ] = [],  # noqa: B006
    device: Devices = [],  # noqa: B006
    program: Annotated[
        list[str],
        Option(
            metavar="PROGRAM",
            help="Only what builds of this program computed; globs are allowed.",
            autocompletion=completion.programs,
        ),
    ] = [],  # noqa: B006
    all_states: Annotated[
        bool, Option("--all", help="List verified and closed regressions too.")
    ] = False,
    fail_on: Annotated[
        FailOn,
        Option(help="Exit with 1 if the list has an open regression that is no improvement."),
    ] = FailOn.NEVER,
    limit: Limit = None,
    store: Store,
    output: Output,
) -> int:
    """List regressions and improvements, the worst first.

    What is wrong comes first, then what fails and what is slower, of each the largest change;
    improvements come last. With --all, what is verified or closed follows.

    \b
    vkbench regressions ls
    vkbench regressions ls --direction slower --direction wrong --fail-on open
    """
    from vkbench_db.blank import is_blank
    from vkbench_detection.regress import inbox

    states = [names.pick(word, STATES, "state") for word in state]
    directions = [names.pick(word, DIRECTIONS, "direction") for word in direction]
    with reading(store.settings()) as tx:
        if is_blank(tx):
            show(Table(columns=ROWS, rows=(), nothing=NOTHING_YET), output)
            return EXIT_OK
        rows = inbox.regressions(
            tx,
            states=states or (() if all_states else SHOWN),
            directions=directions,
            devices=device,
            programs=program,
        )
        waiting = inbox.uncertain(tx)
    cells = [_cells_of_row(row, output) for row in sort_worst_first(rows)]
    table = Table(columns=ROWS, rows=cells, nothing=NONE_AT_ALL if all_states else NONE_OPEN)
    show_first(table, output, output.most(limit), "worst")
    if waiting:
        tell(f"{_waiting(waiting)}: `vkbench regressions suspected`")
    bad = any(row.state == "open" and row.direction in BAD for row in rows)
    return EXIT_REGRESSION if bad and fail_on is FailOn.OPEN else EXIT_OK


@app.command("show")
@spread
def show_(
    *,
    regression: Number,
    markdown: Annotated[
        bool, Option("--markdown", help="Print a Markdown summary for GitHub, chat or mail.")
    ] = False,
    store: Store,
    output: Output,
) -> None:
    """Show one regression: its series and their changes, the evidence and the events."""
    from vkbench_db.upkeep import alerts
    from vkbench_db.work.bundles import read_revisions
    from vkbench_detection.regress import inbox, news

    with reading(store.settings()) as tx:
        story = inbox.story(tx, regression)
        deliveries = alerts.deliveries(tx, regression)
        summed = news.of_regression(tx, regression) if markdown else None
        worst = choose_worst(story.members)
        made_of = read_revisions(tx, [worst.before_bundle, worst.after_bundle])
    if summed:
        from vkbench_scheduler.watch import summaries

        hand_over(summaries.of_regression(summed))
        return
    if output.json:
        row = story_row(story) | {"alerts": [asdict(delivery) for delivery in deliveries]}
        show(Table(columns=STORY, rows=[row]), output)
        return
    members = Table(columns=MEMBERS, rows=[short_member(member) for member in story.members])
    if output.csv:
        show(Table(columns=MEMBERS, rows=[member_row(member) for member in story.members]), output)
        return
    say(_headline(story.row))
    say("")
    show(members, output)
    for side, sha in (("old", worst.before_bundle), ("new", worst.after_bundle)):
        if sha in made_of:
            say(f"{side} bundle of {names.join_items(made_of[sha])}")
    say("")
    for what, command in (commands := list_commands(story)):
        say_command(what, command)
    if commands:
        say("")
    show(Table(columns=EVENTS, rows=[asdict(event) for event in story.events]), output)
    if deliveries:
        say("")
        show(Table(columns=ALERTS, rows=[asdict(delivery) for delivery in deliveries]), output)


@app.command("suspected")
@spread
def list_suspected(*, device: Devices = [], store: Store, output: Output) -> None:  # noqa: B006
    """List changes that are suspected, being measured again, or ambiguous.

    An ambiguous change was measured again, but neither confirmed nor dismissed: the evidence says
    why. Later results may still confirm it.
    """
    from vkbench_db.blank import is_blank
    from vkbench_detection.regress import inbox

    with reading(store.settings()) as tx:
        if is_blank(tx):
            show(Table(columns=SUSPECTED, rows=(), nothing=NOTHING_YET), output)
            return
        changes = inbox.suspected_changes(tx, devices=device, states=UNCERTAIN)
    rows = [asdict(row) for row in changes]
    show(Table(columns=SUSPECTED, rows=rows, nothing=NONE_SUSPECTED), output)


@app.command()
@spread
def ack(*, regressions: Numbers, note: Note = "", store: Store) -> None:
    """Acknowledge regressions: you become their owner, and they count as known."""
    _move(regressions, "acknowledged", note, store)


@app.command()
@spread
def close(*, regressions: Numbers, note: Note = "", store: Store) -> None:
    """Close regressions that need no action."""
    _move(regressions, "closed", note, store)


@app.command()
@spread
def reopen(*, regressions: Numbers, note: Note = "", store: Store) -> None:
    """Open regressions again, whatever their state."""
    _move(regressions, "open", note, store)


@app.command()
@spread
def scan(
    *,
    everything: Annotated[
        bool, Option("--all", help="Scan every series, not only those with new results.")
    ] = False,
    store: Store,
) -> None:
    """Search the whole history of series for changes.

    The scheduler does this once a day for series with new results, and `vkbench import` does it
    for the series that it imports.
    """
    from vkbench_detection.find import history
    from vkbench_detection.steps import conclude, detect, require
    from vkbench_detection.steps import scan as cut

    require()
    now = time.time()
    with open_database(store.settings()) as database:
        with Elapsed("placing new results"):
            detect(database, now)
        with database.reading() as tx:
            series = history.every_series(tx) if everything else history.changed_series(tx)
        with CountedProgress("series", len(series)) as progress:
            touched = cut(database, series, now, progress.over)
        conclude(database, now)
    verb = "is" if len(touched) == 1 else "are"
    changes = f"{count_of(len(touched), 'change')} {verb}"
    say(f"{len(series)} series: {changes} new, or certain now")


@app.command()
@spread
def confirm(
    *,
    change: Annotated[
        int | None,
        Argument(
            metavar="CHANGE",
            help="Only this change: its number in `vkbench regressions suspected`.",
        ),
    ] = None,
    device: Devices = [],  # noqa: B006
    store: Store,
) -> int:
    """Measure suspected changes of this machine's devices again, with no server.

    The old and the new bundle, or build, run in turns, where both are kept: 4 to 24 pairs per
    change, some seconds per pair. Where a scheduler runs, it does this by itself.
    """
    from vkbench_cli.show.waiting import RunProgress
    from vkbench_detection.confirm.pairable import can_pair
    from vkbench_detection.regress import inbox
    from vkbench_detection.steps import require
    from vkbench_local.confirm import confirm_here
    from vkbench_local.executor import sole_executor
    from vkbench_local.machine import all_devices, chosen_devices

    require()
    settings = store.settings()
    with sole_executor(settings.database_url()), open_database(settings) as database:
        devices = chosen_devices(device, settings) if device else all_devices()
        with database.reading() as tx:
            rows = [row for row in inbox.suspected_changes(tx) if change in (None, row.change)]
        here = {facts.key for facts in devices}
        rows = [row for row in rows if row.device in here]
        if not rows:
            raise NothingToDo("there is no suspected change on the devices of this machine")
        if not any(can_pair(row.track, row.metric) for row in rows):
            what = "shards" if rows[0].track == SHARDS else "compiling and submitting"
            raise NothingToDo(f"pairs do not measure {what}: later results decide such a change")
        done = confirm_here(database, settings, devices, change, partial(RunProgress, database))
    return EXIT_OK if done else EXIT_INTERRUPTED


def _move(regressions: list[int], stage: str, note: str, store: Store) -> None:
    from vkbench_detection.regress.regressions import move

    with open_database(store.settings()) as database, database.transaction() as tx:
        for regression in regressions:
            move(tx, regression, RegressionStage(stage), time.time(), user=user_name(), note=note)


def _waiting(counts: Mapping[str, int]) -> str:
    suspected = sum(counts.get(state, 0) for state in UNDECIDED)
    ambiguous = sum(counts.values()) - suspected
    counted = [f"{count_of(suspected, 'change')} suspected"] if suspected else []
    counted += [f"{count_of(ambiguous, 'change')} ambiguous"] if ambiguous else []
    return ", ".join(counted)


def _headline(row: RegressionRow) -> str:
    owner = f", {row.owner}" if row.owner else ""
    heading = f"regression {row.id} ({row.state}{owner}; cause: {row.cause})"
    series = (
        f"{row.changes} series on {count_of(row.devices, 'device')}: {list_counts(row.kernels)}"
    )
    return f"{heading}\n{row.title}\n{series}"


def _cells_of_row(row: RegressionRow, output: Output) -> dict[str, Cell]:
    if output.json:
        return {**asdict(row)}
    return {
        **asdict(row),
        "kernels": list_counts(row.kernels, None if output.csv else KERNELS_SHOWN),
    }
