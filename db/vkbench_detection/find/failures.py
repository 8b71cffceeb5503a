"""Failed jobs: whether the case is to blame, or the device, its host or whoever submitted it.

A job fails after several tries, the later ones alone in their chunks. The case is to blame if

- each try crashed the runner, lost the device, ran into the job's limit or was refused by the
  driver, and each runner had opened the device before; and
- the device was well: it did a job to its end before, and no other case ended badly in between; or
  the next job that it does to its end, within an hour, is of another case and by the same worker.

So a case is not blamed for a device that another one broke. A failure is looked at when it comes
in, and once more when the device has done its next job to its end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, select

from vkbench.job import JobState, Outcome
from vkbench.result import DRIVER_FAILED, UNOPENED
from vkbench_db import schema
from vkbench_db.ask.devices.health import DONE, mishaps
from vkbench_db.rows import fetch, fetch_first, select_record

PATIENCE_SECONDS = 3600.0  # for the device's next job

_WORDS: Mapping[str, str] = {
    Outcome.CRASHED: "crashed",
    Outcome.TIMED_OUT: "timed out",
    Outcome.DEVICE_LOST: "lost the device",
    Outcome.ERROR: "failed in the driver",
}


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
        return any(attempt.outcome == Outcome.TIMED_OUT for attempt in self.tries)


@dataclass(frozen=True, kw_only=True)
class _Done:
    """A job that the device did to its end."""

    case_id: int
    finished_at: float
    worker: str
    started_at: float


def tries(tx: Connection, jobs: Sequence[int]) -> defaultdict[int, list[Try]]:
    """The attempts at jobs, by job; none of a job without any."""
    attempt = schema.attempt.c
    query = (
        select_record(Try, schema.attempt)
        .where(attempt.job_id.in_(jobs))
        .order_by(attempt.job_id, attempt.token)
    )
    by_job = defaultdict[int, list[Try]](list)
    for one in fetch(tx, query, Try):
        by_job[one.job_id].append(one)
    return by_job


def are_of_case(tried: Sequence[Try]) -> bool:
    """Whether there were tries, and each ended as a case can end it."""
    return bool(tried) and all(attempt.is_of_case for attempt in tried)


def describe_tries(tried: Sequence[Try], reason: str) -> str:
    """How tries ended, for people: "3 tries crashed: SIGSEGV"."""
    ends = Counter(attempt.outcome for attempt in tried)
    words = ", ".join(_describe_tries(count, _WORDS.get(end, end)) for end, count in ends.items())
    return f"{words}: {reason}" if reason else words


def is_to_blame(tx: Connection, failure: Failure) -> bool:
    """Whether, by what is known now, the case is to blame for a failure as cases can make it."""
    return _was_well(tx, failure) or _is_well(tx, failure)


def decided_by(tx: Connection, device: int, first: float, last: float) -> list[int]:
    """Failed jobs for which a device's jobs, done to their ends from `first` to `last`, may decide.

    These are the failures since the job that the device did to its end before.
    """
    job = schema.job.c
    earlier = _last_done(tx, device, job.finished_at < first)
    since = max(earlier.finished_at if earlier else 0.0, first - PATIENCE_SECONDS)
    query = select(job.id).where(
        *(job.device_id == device, job.finished_at.between(since, last)),
        job.state == JobState.FAILED,
    )
    return list(tx.execute(query.order_by(job.id)).scalars())


def _was_well(tx: Connection, failure: Failure) -> bool:
    """Whether no other case ended badly after the last job that was done to its end."""
    first = failure.tries[0].started_at or 0.0
    done = _last_done(tx, failure.device_id, schema.job.c.finished_at <= failure.finished_at)
    if done is None:
        return False
    if done.started_at >= first:  # between the tries
        return True
    # results of several jobs may come in together, and long after they were made
    since = min(done.started_at, done.finished_at)
    return not any(
        mishap.device_id == failure.device_id
        and mishap.case_id != failure.case_id
        and done.started_at < mishap.at < first
        for mishap in mishaps(tx, since, failure.finished_at)
    )


def _last_done(tx: Connection, device: int, when: ColumnElement[bool]) -> _Done | None:
    job = schema.job.c
    query = _select_done_jobs().where(job.device_id == device, when)
    return fetch_first(tx, query.order_by(job.finished_at.desc(), job.id.desc()).limit(1), _Done)


def _is_well(tx: Connection, failure: Failure) -> bool:
    """Whether the device's next job shows that the case, and not the device, is to blame.

    A device that was paused and resumed in between may have been repaired.
    """
    job, began, last = schema.job.c, schema.attempt.c.started_at, failure.tries[-1]
    since = last.started_at or 0.0
    query = _select_done_jobs().where(
        *(job.device_id == failure.device_id, began > since),
        job.finished_at.between(failure.finished_at, failure.finished_at + PATIENCE_SECONDS),
    )
    following = fetch_first(tx, query.order_by(began).limit(1), _Done)
    if following is None or following.case_id == failure.case_id:
        return False
    device = schema.device.c
    resumed = tx.execute(
        select(device.resumed_at).where(device.id == failure.device_id)
    ).scalar_one()
    return following.worker == last.worker and (resumed is None or resumed <= since)


def _select_done_jobs() -> Select[*tuple[object, ...]]:
    """Select jobs that a device did to their ends, with the attempt that did so."""
    job, attempt = schema.job.c, schema.attempt.c
    return (
        select(job.case_id, job.finished_at, attempt.worker, attempt.started_at)
        .join(schema.attempt, schema.is_settling)
        .where(job.state.in_(DONE), attempt.started_at.is_not(None))
    )


def _describe_tries(count: int, how: str) -> str:
    return f"{count} {'try' if count == 1 else 'tries'} {how}"
