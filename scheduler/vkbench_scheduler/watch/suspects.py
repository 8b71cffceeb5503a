"""Repeats timings that are faster than their device can be, with other inputs, and alerts."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from vkbench.job import JobState
from vkbench.process import log
from vkbench.settings import Settings
from vkbench.words import units
from vkbench.words.markdown import code, escape_text
from vkbench_db import schema
from vkbench_db.ask.results import ResultRow, results_of
from vkbench_db.database import Database
from vkbench_db.upkeep import second_checks
from vkbench_db.upkeep.second_checks import SecondCheck
from vkbench_detection.series.impossible import SUSPECT
from vkbench_scheduler.watch.alerts import channels_of, heard_by_all
from vkbench_scheduler.watch.messages import Message, write_message

PATIENCE_SECONDS = 86_400.0  # after which a channel that never heard is given up
WAIT_SECONDS = 3600.0  # for a second check; then people hear without it

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A suspect timing and what its second check found."""

    check: SecondCheck
    first: ResultRow
    again: ResultRow | None  # the same metric with other inputs


def check(database: Database, jobs: Iterable[int], now: float) -> None:
    """Have jobs whose timings are suspect done again with other inputs."""
    with database.transaction() as tx:
        runs = second_checks.submit(tx, sorted(jobs), now)
    if runs:
        log.event(_log, "timings_suspect", checks=len(runs))


def step(database: Database, settings: Settings, now: float) -> None:
    """Alert on suspect timings once their second check has ended."""
    channels = channels_of(settings)
    if not channels:
        return
    with database.reading() as tx:
        waiting = [
            second_check
            for second_check in second_checks.untold_checks(tx, now - PATIENCE_SECONDS)
            if second_check.is_finished or now - second_check.created_at > WAIT_SECONDS
        ]
        suspects = [_suspect(tx, second_check) for second_check in waiting]
    for second_check, suspect in zip(waiting, suspects, strict=True):
        is_over = suspect is None or heard_by_all(
            channels, message_of(suspect), now, job=second_check.job
        )
        if is_over:
            with database.transaction() as tx:
                second_checks.note_told(tx, second_check, now)


def message_of(suspect: Suspect) -> Message:
    """The message about one suspect timing."""
    first, again = suspect.first, suspect.again
    identity = f"{first.host} {first.device} {first.case_name} {first.finished_at} {SUSPECT}"
    summary = _summary(suspect)
    names = ("metric", "host", "device", "device_name", "run", "job", "seconds")
    data = {name: getattr(first, name) for name in names} | {
        "case": first.case_name,
        "variant": first.variant_run,
        "seconds_again": again.seconds if again else None,
        "second_check": suspect.check.state,
        "second_check_run": suspect.check.run,
        "summary": summary,
    }
    title = f"{first.case_name} on {first.device_name} is {SUSPECT}"
    return write_message(
        identity, "timing.suspect", first.finished_at, title=title, text=summary, data=data
    )


def _suspect(tx: Connection, second_check: SecondCheck) -> Suspect | None:
    """The suspect of a second check; None if its timing counts by now, or is gone."""
    firsts = [row for row in _rows(tx, second_check.job) if row.flag == SUSPECT]
    if not firsts:
        return None
    job = tx.execute(
        select(schema.job.c.id).where(schema.job.c.run_id == second_check.run)
    ).scalar_one()
    again = {row.metric: row for row in _rows(tx, job)}
    return Suspect(check=second_check, first=firsts[0], again=again.get(firsts[0].metric))


def _rows(tx: Connection, job: int) -> Sequence[ResultRow]:
    return results_of(tx, [job])


def _summary(suspect: Suspect) -> str:
    """A summary in Markdown: the timing, and what its second check says of it."""
    first = suspect.first
    unit, (shown, *others) = units.seconds_column(
        [first.seconds, *([suspect.again.seconds] if suspect.again else [])]
    )
    return (
        f"{code(first.case_name)} ({escape_text(first.variant_run or first.variant)}, "
        f"{first.metric}) on {escape_text(first.device_name)} of {escape_text(first.host)} "
        f"takes {shown} {unit}: faster than any calibration says that this device can be. "
        f"It counts in no series and passes no gate. {_second(suspect, unit, others)}"
    )


def _second(suspect: Suspect, unit: str, seconds: Sequence[str]) -> str:
    check = suspect.check
    if check.state == JobState.PASSED and seconds:
        return (
            f"With other inputs it was right again, and took {seconds[0]} {unit}: look at what it "
            "leaves out, at its count of operations, or calibrate the device anew."
        )
    if check.state == JobState.WRONG:
        return f"With other inputs it is wrong: {escape_text(check.reason)}"
    if check.is_finished:
        reason = escape_text(check.reason)
        return f"Its second check with other inputs ended as {check.state}: {reason}"
    return "Its second check with other inputs has not ended yet."
