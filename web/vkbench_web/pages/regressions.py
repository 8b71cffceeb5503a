"""/regressions: the inbox; /regressions/N: a regression, its evidence, and what people did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from vkbench.errors import UsageError
from vkbench.programs.program import REPOSITORIES
from vkbench.programs.store import BuildStore
from vkbench.settings import Settings
from vkbench.words.names import join_items
from vkbench.words.units import list_counts
from vkbench_db.ask.contents import Difference, differ_builds, differ_bundles
from vkbench_db.ask.timings import seconds_of
from vkbench_db.database import Transaction
from vkbench_db.upkeep import bisections
from vkbench_db.upkeep.tokens import Scope
from vkbench_db.work.bundles import read_revisions
from vkbench_detection.changes.states import UNCERTAIN
from vkbench_detection.regress import inbox
from vkbench_detection.regress.inbox import MemberRow, RegressionRow, RegressionStory
from vkbench_detection.regress.stages import REACHED_FROM, TO_DO
from vkbench_tables.regressions import (
    MEMBERS,
    ROWS,
    SUSPECTED,
    choose_worst,
    has_moved,
    list_commands,
    member_row,
    short_member,
    sort_worst_first,
)
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind
from vkbench_web.access.texts import Form, Number
from vkbench_web.access.triage import STAGES, Action, take
from vkbench_web.access.visitor import writing_form
from vkbench_web.listing import Row, list_table
from vkbench_web.pages.one_series import plot_columns
from vkbench_web.pictures import regression as drawn
from vkbench_web.shell import age, lab_of, page

router = APIRouter()
NOTHING_YET = "no regression: nothing has become slower, wrong or faster for certain, or fails now"
NOTHING_DOUBTED = "no change is suspected, being measured again, or ambiguous"
KERNELS_SHOWN = 3
PLANTED = " (planted)"  # behind the titles of a demonstration's regressions
_ALIKE = 3  # different values of a fact that a page lists
_PARTS = ("build", "kernel", "bundle", "driver")
_SIDES = ("before", "after")
_FACTS = tuple(f"{side}_{part}" for part in _PARTS for side in _SIDES)

INBOX = (
    *(
        replace(column, heading="age") if column.key == "opened_at" else column
        for column in ROWS
        if column.key != "kernels"
    ),
    Column(key="kernels", heading="kernels", rank=Rank.MINOR),
)
_FIRST = ("case_name", "device_name", "ratio", "low", "high")  # what people look for
_FIRST_DOUBTED = ("case_name", "device_name", "direction", "ratio", "evidence")


def _evidence_columns() -> tuple[Column, ...]:
    """The columns of the changes: case, device and change first, then who ran and what says so."""
    by_key = {column.key: column for column in MEMBERS}
    shown = {
        key: replace(column, hidden=column.hidden or key in _FACTS)
        for key, column in by_key.items()
    }
    return (
        *(shown[key] for key in _FIRST),
        Column(key="old_seconds", heading="old", kind=ValueKind.SECONDS),
        Column(key="new_seconds", heading="new", kind=ValueKind.SECONDS),
        *(
            replace(column, rank=Rank.MINOR, hidden=column.hidden or key == "evidence")
            for key, column in shown.items()
            if key not in _FIRST
        ),
    )


EVIDENCE = _evidence_columns()
DOUBTED = tuple(
    replace(column, rank=Rank.KEY if column.key in _FIRST_DOUBTED else Rank.MINOR)
    for column in sorted(
        SUSPECTED, key=lambda column: (*_FIRST_DOUBTED, column.key).index(column.key)
    )
)


@router.get("/regressions", include_in_schema=False)
def inbox_page(request: Request) -> Response:
    """What people have to look at; every regression with `?all=1`, or with a state asked for."""
    lab = lab_of(request)
    params = request.query_params
    with lab.reading() as tx:
        every = bool(params.get("all") or params.get("state"))
        rows = sort_worst_first(inbox.regressions(tx, states=() if every else TO_DO))
        doubts = inbox.uncertain(tx)
        planted = lab.stories(tx)
    table = Table(columns=INBOX, rows=[_cells_of_row(row) for row in rows], nothing=NOTHING_YET)
    now = lab.now()
    listing = list_table(
        request,
        table,
        name="regressions",
        links={"id": _story, "title": _story},
        texts={
            "opened_at": lambda row: _age(row["opened_at"], now),
            "title": lambda row: f"{row['title']}{PLANTED if row['id'] in planted else ''}",
        },
        own=("all",),
    )
    return listing.download() or page(
        request, "regressions.html", listing=listing, every=every, doubts=doubts
    )


@router.get("/regressions/suspected", include_in_schema=False)
def show_suspected(request: Request) -> Response:
    """Changes that are not certain."""
    lab = lab_of(request)
    with lab.reading() as tx:
        rows = [asdict(row) for row in inbox.suspected_changes(tx, states=UNCERTAIN)]
    table = Table(columns=DOUBTED, rows=rows, nothing=NOTHING_DOUBTED)
    listing = list_table(
        request,
        table,
        name="suspected",
        links={
            "case_name": lambda row: f"/series/{row['series']}",
            "device_name": lambda row: f"/heatmap?device={row['device']}",
        },
    )
    return listing.download() or page(request, "suspected.html", listing=listing)


@router.get("/regressions/{regression}", include_in_schema=False)
def regression_page(request: Request, regression: Number) -> Response:
    """The page of one regression."""
    with lab_of(request).reading() as tx:
        story = inbox.story(tx, regression)
        planted = lab_of(request).stories(tx).get(regression, "")
        rows = evidence(tx, story)
        searches = bisections.of_regression(tx, regression)
        table = Table(columns=EVIDENCE, rows=rows)
        changes = list_table(
            request,
            table,
            name=f"regression-{regression}",
            links={
                "case_name": lambda row: f"/series/{row['series']}",
                "device_name": lambda row: f"/heatmap?device={row['device']}",
                "before_job": lambda row: f"/jobs/{row['before_job']}",
                "after_job": lambda row: f"/jobs/{row['after_job']}",
            },
        )
        if file := changes.download():
            return file
        worst = choose_worst(story.members)
        history = drawn.read_worst(tx, worst)
        sparks = drawn.draw_rows(tx, [int(str(row["change"])) for row in changes.rows])
        devices = drawn.draw_devices(tx, story.members)
        began = inbox.read_beginning(tx, regression)
        difference = _find_difference(tx, worst)
        revisions = list_revisions(tx, lab_of(request).settings, worst)
    return page(
        request,
        "regression.html",
        row=story.row,
        began=began,
        planted=planted,
        difference=difference,
        revisions=revisions,
        worst=worst,
        history=history,
        plot={"x": "time", "y": "fitted", "series": [plot_columns(history)] if history else []},
        pairs=drawn.describe_pairs(worst),
        sparks=sparks,
        device_pictures=devices,
        comparison=drawn.comparison_url(story),
        shared=_list_shared_facts(story.members),
        commands=list_commands(story),
        evidence=sorted({member.evidence for member in story.members if member.evidence}),
        events=story.events,
        searches=searches,
        changes=changes,
        actions=_actions(story.row.state),
    )


@router.post("/regressions/{regression}", include_in_schema=False)
def step(request: Request, regression: Number, form: Form) -> Response:
    """Acknowledge, close, reopen, annotate or assign it."""
    word = form.get("action", "")
    if word not in tuple(Action):
        raise UsageError(f"a step is {', '.join(Action)}")
    action = Action(word)
    with writing_form(request, form, Scope.TRIAGE, f"{action} {regression}") as (tx, visitor):
        take(
            tx,
            regression,
            action,
            visitor.name,
            lab_of(request).now(),
            note=form.get("note", "")[:10_000],
            owner=form.get("owner", "")[:500],
        )
    return RedirectResponse(f"/regressions/{regression}", 303)


def evidence(tx: Transaction, story: RegressionStory) -> list[dict[str, Cell]]:
    """The changes of a regression, each with its old and new time."""
    jobs = {job for member in story.members for job in (member.before_job, member.after_job)}
    seconds = seconds_of(tx, jobs)
    return [
        member_row(member)
        | {
            "old_seconds": seconds.get((member.before_job, member.metric)),
            "new_seconds": seconds.get((member.after_job, member.metric)),
        }
        for member in story.members
    ]


def _find_difference(tx: Transaction, worst: MemberRow) -> Difference | None:
    """What the bundles, or the builds, before and after a change differ in; None of the same."""
    if not has_moved(worst):
        return None
    if worst.program:
        return differ_builds(tx, worst.before_bundle, worst.after_bundle)
    return differ_bundles(tx, (worst.before_job, worst.after_job))


def list_revisions(
    tx: Transaction, settings: Settings, worst: MemberRow
) -> list[tuple[str, str, str]]:
    """The git revisions of what ran before and after a change: heading, words and link of each.

    A build's commit is known on the machine that made the build, and has a link if the program's
    repository is known; a bundle's revisions are in the database.
    """
    sides = (("Old revision", worst.before_bundle), ("New revision", worst.after_bundle))
    if not worst.program:
        made_of = read_revisions(tx, [sha for _, sha in sides])
        return [(heading, join_items(made_of[sha]), "") for heading, sha in sides if sha in made_of]
    if not settings.build_folder().is_dir():
        return []
    store, repository = BuildStore(settings.build_folder()), REPOSITORIES.get(worst.program)
    known = {build.sha: build.commits for build in store.list_builds()}
    return [
        (
            heading,
            f"{commit.name} {commit.subject}",
            f"{repository}/commit/{commit.sha}" if repository else "",
        )
        for heading, sha in sides
        for commit in known.get(sha, ())[:1]
    ]


def _actions(state: str) -> list[Action]:
    """The steps that change a regression in this state."""
    return [action for action, stage in STAGES.items() if state in REACHED_FROM[stage]]


def _list_shared_facts(members: Sequence[MemberRow]) -> list[tuple[str, list[str]]]:
    """Facts from before and after that few values sum up for all changes."""
    rows: list[Mapping[str, Cell]] = [
        short_member(member) if member.program else member_row(member) for member in members
    ]
    facts = []
    for part in _PARTS:
        old, new = (_list_values(rows, f"{side}_{part}") for side in _SIDES)
        sides = ((part, old),) if old == new else ((f"old {part}", old), (f"new {part}", new))
        facts += [(heading, values) for heading, values in sides if values]
    return facts


def _list_values(rows: Sequence[Mapping[str, Cell]], key: str) -> list[str]:
    """The values of a column, each once; of many the first, and how many more."""
    values = sorted({str(row[key]) for row in rows} - {"", "None"})
    more = [f"and {len(values) - _ALIKE} more"] if len(values) > _ALIKE else []
    return values[:_ALIKE] + more


def _cells_of_row(row: RegressionRow) -> dict[str, Cell]:
    return {**asdict(row), "kernels": list_counts(row.kernels, KERNELS_SHOWN)}


def _story(row: Row) -> str:
    return f"/regressions/{row['id']}"


def _age(moment: Cell, now: float) -> str:
    return age(now - moment) if isinstance(moment, int | float) else ""
