"""The part of the API that writes: runs, schedules and regressions, by token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header, Security
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse

from vkbench.errors import NothingToDo, UnknownName, UsageError
from vkbench.run import RunWords
from vkbench_db.ask import queries
from vkbench_db.ask.devices.names import served_keys
from vkbench_db.database import Transaction
from vkbench_db.upkeep.tokens import Scope
from vkbench_scheduler.planning.selection import Selection
from vkbench_tables.written.data import SCHEMA_VERSION
from vkbench_web.access import triage
from vkbench_web.access.selections import Wanted, selection_of
from vkbench_web.access.texts import Note, Number, Word
from vkbench_web.access.visitor import writing_api
from vkbench_web.shell import lab_of

if TYPE_CHECKING:
    from vkbench_scheduler.planning.submit import Submitted

MOST_JOBS = 200_000  # of one request
_REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"description": "There is no valid token."},
    403: {"description": "The token does not permit this."},
}
_BEARER = HTTPBearer(auto_error=False, description="A token of `vkbench token add`.")
router = APIRouter(
    prefix="/api",
    tags=["write"],
    responses=_REFUSALS,
    dependencies=[Security(_BEARER)],  # for the schema alone: the guard has refused others
)


class Answer(BaseModel):
    """What every answer has."""

    schema_version: int = SCHEMA_VERSION


class NewRun(Wanted):
    """A selection to submit, as `vkbench submit` takes it."""

    label: Word = ""
    tags: dict[Word, Word] = Field(default_factory=dict, max_length=50)
    idempotency_key: Word = Field(
        "", description="A second request with the same key gives the first one's run."
    )


class MadeRun(Answer):
    """The run of a selection."""

    id: int
    uuid: str
    jobs: int = Field(description="how many were submitted; 0 where the run is an earlier one")
    new: bool = Field(description="false where the idempotency key was used before")


class CancelledRun(Answer):
    """What cancelling a run did."""

    id: int
    cancelled: int = Field(description="jobs that had not ended")


class Step(BaseModel):
    """What a person does about a regression."""

    model_config = ConfigDict(extra="forbid")

    action: triage.Action
    note: Note = ""
    owner: Word = Field("", description="of the action `owner`; nobody where it is empty")


class Moved(Answer):
    """A regression as the step left it."""

    id: int
    state: str
    owner: str


class NewSchedule(BaseModel):
    """A selection to submit again and again."""

    model_config = ConfigDict(extra="forbid")

    name: Word
    cron: Word = Field(
        description="minute, hour, day of month, month, weekday; times are UTC",
        examples=["0 2 * * *"],
    )
    selection: Wanted


class MadeSchedule(Answer):
    """A schedule that was made."""

    name: str
    next_due: float | None = Field(description="Unix seconds")


@router.post("/runs", status_code=201, response_model=MadeRun)
def submit(
    request: Request,
    new_run: NewRun,
    idempotency_key: Annotated[Word, Header(description="As in the body.")] = "",
) -> JSONResponse:
    """Submit a run to the fleet; scope `submit`.

    Without suite, kernels, formats, shapes or cases the suite `quick` runs. 200 instead of 201
    where the idempotency key was used before.
    """
    with writing_api(request, Scope.SUBMIT, "submit") as (tx, visitor), _said_plainly():
        made = _submit_run(
            tx,
            selection_of(new_run),
            user=visitor.name,
            label=new_run.label,
            tags=new_run.tags,
            key=new_run.idempotency_key or idempotency_key,
        )
    answer = MadeRun(id=made.run.id, uuid=made.run.uuid, jobs=made.jobs, new=made.run.new)
    return JSONResponse(answer.model_dump(), 201 if made.run.new else 200)


@router.post("/runs/{run}/cancel")
def cancel(request: Request, run: Number) -> CancelledRun:
    """Cancel the unfinished jobs of a run; scope `submit`."""
    with writing_api(request, Scope.SUBMIT, f"cancel {run}") as (tx, _):
        count = triage.cancel(tx, run, lab_of(request).now())
    return CancelledRun(id=run, cancelled=count)


@router.post("/regressions/{regression}")
def step(request: Request, regression: Number, move: Step) -> Moved:
    """Acknowledge, close, reopen, annotate or assign a regression; scope `triage`."""
    now = lab_of(request).now()
    with writing_api(request, Scope.TRIAGE, f"{move.action} {regression}") as (tx, visitor):
        row = triage.take(
            tx, regression, move.action, visitor.name, now, note=move.note, owner=move.owner
        )
    return Moved(id=row.id, state=row.state, owner=row.owner)


@router.post("/schedules", status_code=201)
def schedule(request: Request, new_schedule: NewSchedule) -> MadeSchedule:
    """Add a schedule, which the scheduler submits whenever it is due; scope `schedule`."""
    from vkbench_scheduler.watch import schedules
    from vkbench_scheduler.watch.cron import next_slot

    now = lab_of(request).now()
    what = f"schedule {new_schedule.name}"
    with writing_api(request, Scope.SCHEDULE, what) as (tx, visitor), _said_plainly():
        schedules.add(
            tx,
            name=new_schedule.name,
            cron=new_schedule.cron,
            selection=selection_of(new_schedule.selection),
            user=visitor.name,
            now=now,
        )
    return MadeSchedule(name=new_schedule.name, next_due=next_slot(new_schedule.cron, now))


def _submit_run(
    tx: Transaction,
    selection: Selection,
    *,
    user: str,
    label: str,
    tags: Mapping[str, Any],
    key: str,
) -> Submitted:
    from vkbench_scheduler.bundles import bundle_named
    from vkbench_scheduler.planning.plan import count
    from vkbench_scheduler.planning.submit import submit_in

    known = [row.facts for row in queries.devices(tx)]
    meant = replace(selection, devices=tuple(served_keys(tx, selection.devices)))
    bundle = bundle_named(tx, selection.bundle) if selection.bundle else None
    if (jobs := count(meant, known)) > MOST_JOBS:
        raise UsageError(f"this selects {jobs} jobs, and one run takes at most {MOST_JOBS}")
    return submit_in(
        tx,
        meant,
        known,
        bundle=bundle,
        words=RunWords(user=user, label=label, tags=tags, idempotency_key=key or None),
    )


@contextmanager
def _said_plainly() -> Iterator[None]:
    """Answer unknown names in a body with 400, since 404 would speak of the address."""
    try:
        yield
    except (UnknownName, NothingToDo) as error:
        raise UsageError(str(error)) from error
