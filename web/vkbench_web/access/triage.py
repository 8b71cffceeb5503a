"""What people do about regressions and runs, from a page or through the API."""

from __future__ import annotations

from enum import StrEnum

from vkbench.errors import NothingToDo, UsageError
from vkbench_db.ask import queries
from vkbench_db.database import Transaction
from vkbench_db.work import store
from vkbench_detection.regress import inbox
from vkbench_detection.regress.inbox import RegressionRow
from vkbench_detection.regress.stages import RegressionStage


class Action(StrEnum):
    """Steps of a person."""

    ACKNOWLEDGE = "acknowledge"  # and become the owner
    CLOSE = "close"
    REOPEN = "reopen"
    NOTE = "note"
    OWNER = "owner"


STAGES = {
    Action.ACKNOWLEDGE: RegressionStage.ACKNOWLEDGED,
    Action.CLOSE: RegressionStage.CLOSED,
    Action.REOPEN: RegressionStage.OPEN,
}


def take(
    tx: Transaction,
    regression: int,
    action: Action,
    user: str,
    now: float,
    *,
    note: str = "",
    owner: str = "",
) -> RegressionRow:
    """Take a step in a person's name; return the regression as it is then."""
    from vkbench_detection.regress import regressions

    if action is Action.NOTE and not note.strip():
        raise UsageError("the note is empty")
    if action in STAGES:
        regressions.move(tx, regression, STAGES[action], now, user=user, note=note)
    elif action is Action.OWNER:
        regressions.assign(tx, regression, owner.strip(), now, user=user)
    if note.strip() and action in (Action.NOTE, Action.OWNER):
        regressions.annotate(tx, regression, now, user=user, note=note)
    return inbox.story(tx, regression).row


def cancel(tx: Transaction, run: int, now: float) -> int:
    """Cancel the unfinished jobs of a run; return how many."""
    found_run = queries.find_run(tx, str(run))
    if found_run.imported:
        raise NothingToDo(f"run {run} was imported: cancel it on the host of its own database")
    return store.cancel(tx, found_run.id, now)
