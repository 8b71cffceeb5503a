"""Failed jobs: whether the case is to blame, or the device, its host or whoever submitted it.

A job fails after several tries, the later ones alone in their chunks. The case is to blame if

- each try crashed the runner, lost the device, ran into the job's limit or was refused by the
  driver, and each runner had opened the device before; and
- the device was well: it did a job to its end before, and no other case ended badly in between; or
  the same worker had it do another case to its end within an hour afterwards.

So a case is not blamed for a device that another one broke. Where neither shows yet whether the
device is well, a failure waits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, exists, or_, select

from vkbench.job import Outcome
from vkbench.result import DRIVER_FAILED, UNOPENED
from vkbench_db import schema
from vkbench_db.ask.device_health import DONE, mishaps
from vkbench_db.rows import fetch, fetch_first

PATIENCE_SECONDS = 3600.0  # for later results; a failure that still waits then is no one's

_WORDS: Mapping[str, str] = {
    Outcome.CRASHED: "crashed",
    Outcome.TIMED_OUT: "timed out",
    Outcome.DEVICE_LOST: "lost the device",
    Outcome.ERROR: "failed in the driver",
}


class Blame(StrEnum):
    """Whose fault a failure is."""

    CASE = "case"
    OTHER = "other"
    OPEN = "open"  # nothing shows yet whether the device is well


@dataclass(frozen=True, kw_only=True)
class Try:
    """An attempt at a job that failed."""

    job_id: int
    outcome: str
    telemetry: Mapping[str, Any]
    bundle: str
    environment: str
    worker: str
    started_at: float | None

    @property
    def is_of_case(self) -> bool:
        """Whether it ended as a case can end it."""
        match self.outcome:
            case Outcome.CRASHED | Outcome.TIMED_OUT:
                return True
            case Outcome.DEVICE_LOST:
                return not self.telemetry.get(UNOPENED)
            case Outcome.ERROR:
                return bool(self.telemetry.get(DRIVER_FAILED))
        return False


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A failed job, with its tries."""

    job: int
    device_id: int
    case_id: int
    finished_at: float
    tries: Sequence[Try]  # in their order

    @property
    def is_of_case(self) -> bool:
        """Whether each try ended as a case can end it."""
        return are_of_case(self.tries)

    @property
    def has_timed_out(self) -> bool:
        """Whether a try ran into the job's limit."""
        return any(each.outcome == Outcome.TIMED_OUT for each in self.tries)


@dataclass(frozen=True, kw_only=True)
class _Done:
    """A job that the device did to its end."""

    finished_at: float
    started_at: float


def tries(tx: Connection, jobs: Sequence[int]) -> defaultdict[int, list[Try]]:
    """The attempts at jobs, by job; none of a job without any."""
    attempt = schema.attempt.c
    asked = (
        select(
            *(attempt.job_id, attempt.outcome, attempt.telemetry, attempt.bundle),
            *(attempt.environment, attempt.worker, attempt.started_at),
        )
        .where(attempt.job_id.in_(jobs))
        .order_by(attempt.job_id, attempt.token)
    )
    found = defaultdict[int, list[Try]](list)
    for each in fetch(tx, asked, Try):
        found[each.job_id].append(each)
    return found


def are_of_case(tried: Sequence[Try]) -> bool:
    """Whether there were tries, and each ended as a case can end it."""
    return bool(tried) and all(each.is_of_case for each in tried)


def told(tried: Sequence[Try], reason: str) -> str:
    """How tries ended, for people: "3 tries crashed: SIGSEGV"."""
    ends = Counter(each.outcome for each in tried)
    words = ", ".join(_tried(count, _WORDS.get(end, end)) for end, count in ends.items())
    return f"{words}: {reason}" if reason else words


def blame(tx: Connection, failure: Failure, now: float) -> Blame:
    """Whose fault a failure is; OPEN where later results may tell."""
    if not failure.is_of_case:
        return Blame.OTHER
    if _was_well(tx, failure) or _is_well(tx, failure):
        return Blame.CASE
    is_old = now - failure.finished_at >= PATIENCE_SECONDS
    return Blame.OTHER if is_old else Blame.OPEN


def _was_well(tx: Connection, failure: Failure) -> bool:
    """Whether no other case ended badly after the last job that was done to its end."""
    first = failure.tries[0].started_at or 0.0
    done = _last_done(tx, failure)
    if done is None:
        return False
    if done.started_at >= first:  # between the tries
        return True
    return not any(
        each.device_id == failure.device_id
        and each.case_id != failure.case_id
        and done.started_at < each.at < first
        for each in mishaps(tx, done.finished_at, failure.finished_at)
    )


def _last_done(tx: Connection, failure: Failure) -> _Done | None:
    job, attempt = schema.job.c, schema.attempt.c
    last = (
        select(job.id, job.settled_token, job.finished_at)
        .where(
            *(job.device_id == failure.device_id, job.state.in_(DONE)),
            *(job.finished_at <= failure.finished_at, job.id != failure.job),
        )
        .order_by(job.finished_at.desc(), job.id.desc())
        .limit(1)
        .subquery()
    )
    asked = select(last.c.finished_at, attempt.started_at).join(
        last, (last.c.id == attempt.job_id) & (last.c.settled_token == attempt.token)
    )
    return fetch_first(tx, asked.where(attempt.started_at.is_not(None)), _Done)


def _is_well(tx: Connection, failure: Failure) -> bool:
    """Whether the worker of the last try had the device do another case to its end since then.

    A device that was paused and resumed in between may have been repaired.
    """
    job, attempt, device = schema.job.c, schema.attempt.c, schema.device.c
    last = failure.tries[-1]
    since = last.started_at or 0.0
    settled = (attempt.job_id == job.id) & (attempt.token == job.settled_token)
    both = schema.job.join(schema.attempt, settled).join(schema.device, device.id == job.device_id)
    later = (
        exists()
        .select_from(both)
        .where(
            *(job.device_id == failure.device_id, job.case_id != failure.case_id),
            job.state.in_(DONE),
            job.finished_at.between(failure.finished_at, failure.finished_at + PATIENCE_SECONDS),
            *(attempt.worker == last.worker, attempt.started_at > since),
            or_(device.resumed_at.is_(None), device.resumed_at <= since),
        )
    )
    return bool(tx.execute(select(later)).scalar())


def _tried(count: int, how: str) -> str:
    return f"{count} {'try' if count == 1 else 'tries'} {how}"
