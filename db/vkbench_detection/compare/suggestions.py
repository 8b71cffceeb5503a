"""Comparisons that people may want: each of two sides that have timed cases in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from sqlalchemy import Connection, and_, exists, select
from sqlalchemy.sql.elements import ColumnElement

from vkbench.job import JobState, Mode
from vkbench.run import COMPARED
from vkbench.words.units import count_of
from vkbench_db import schema
from vkbench_db.ask.devices.names import named_devices
from vkbench_db.rows import fetch, select_record

NIGHTS: Final = 3  # runs that are suggested beside the one before, the newest
RUNS: Final = 40  # the newest, in which drivers and bundles are looked for
PROBED: Final = 20  # cases of a run by which the run before is found
SHA_SHOWN: Final = 12
_WORK: Final = ("device_id", "case_id", "mode", "variant")


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """Two sides for `references.find`."""

    old: str
    new: str
    words: str  # what that is, for people


@dataclass(frozen=True, kw_only=True)
class _Run:
    id: int
    label: str
    created_at: float

    @property
    def words(self) -> str:
        day = datetime.fromtimestamp(self.created_at, UTC).strftime("%Y-%m-%d")
        name = self.label or f"run {self.id}"
        return name if day in name else f"{name} of {day}"


@dataclass(frozen=True, kw_only=True)
class _Ran:
    """With what a device did its first right job of a run."""

    device: str  # key
    device_id: int
    run: int
    driver: str
    driver_version: str
    bundle: str
    build: str | None  # what people call it; None where kernels ran

    def name_of(self, what: str) -> str:
        """The driver, the bundle or the build, as `references.find` knows it; "" of none."""
        if what == "driver":
            return f"{self.driver} {self.driver_version}"
        is_of_it = (what == "build") == (self.build is not None)
        return (self.build or self.bundle[:SHA_SHOWN]) if is_of_it else ""


def suggestions(tx: Connection) -> list[Suggestion]:
    """The last runs of work beside those before, and what changed last on each device."""
    runs = _runs(tx)
    return [*islice(_nights(tx, runs), NIGHTS), *_moves(tx, [run.id for run in runs])]


def _runs(tx: Connection) -> list[_Run]:
    run = schema.run.c
    is_timed = exists().where(_is_timed(run.id))
    query = (
        select_record(_Run, schema.run)
        .where(schema.run.c.kind.in_(COMPARED), is_timed)
        .order_by(run.created_at.desc(), run.id.desc())
        .limit(RUNS)
    )
    return fetch(tx, query, _Run)


def _nights(tx: Connection, runs: Sequence[_Run]) -> Iterator[Suggestion]:
    """Runs of work, each beside the newest before it that did the same."""
    for place, run in enumerate(runs):
        before = _before(tx, run, runs[place + 1 :])
        if before:
            yield Suggestion(
                old=str(before.id), new=str(run.id), words=f"{run.words} against {before.words}"
            )


def _before(tx: Connection, run: _Run, earlier: Sequence[_Run]) -> _Run | None:
    """The newest of the earlier runs that has most of what a run did."""
    job, other = schema.job.c, schema.job.alias("other")
    of_run = select(job.id).where(_is_timed(run.id)).order_by(job.position)
    probed = tx.execute(of_run.limit(PROBED))
    same = (getattr(other.c, name) == getattr(job, name) for name in _WORK)
    rows = tx.execute(
        select(other.c.run_id)
        .select_from(schema.job)
        .join(other, and_(*same))
        .where(
            *(job.id.in_(probed.scalars().all()), other.c.state == JobState.PASSED),
            other.c.run_id.in_([other_run.id for other_run in earlier]),
            other.c.finished_at.is_not(None),
        )
    ).scalars()
    shared = Counter(rows)
    most = max(shared.values(), default=0)
    return next(
        (other_run for other_run in earlier if most and 2 * shared[other_run.id] >= most), None
    )


def _moves(tx: Connection, runs: Sequence[int]) -> Iterator[Suggestion]:
    """The last driver, bundle and build of each device beside the ones before."""
    places: dict[tuple[str, str, str], list[str]] = {}
    ran = _ran(tx, runs)
    for device in named_devices(tx):
        mine = [end for end in ran if end.device == device.key]
        for what in ("driver", "bundle", "build"):
            if pair := _last_two(tx, mine, what):
                old, new = (end.name_of(what) for end in pair)
                places.setdefault((what, old, new), []).append(f"{device.name} of {device.host}")
    for (what, old, new), devices in places.items():
        others = f" and {count_of(len(devices) - 1, 'more device')}" if len(devices) > 1 else ""
        yield Suggestion(
            old=f"{what}:{old}",
            new=f"{what}:{new}",
            words=f"{what} {new} against {old} on {devices[0]}{others}",
        )


def _ran(tx: Connection, runs: Sequence[int]) -> list[_Ran]:
    """With what each device did each run, the newest first."""
    job, run, attempt = schema.job.c, schema.run.c, schema.attempt.c
    environment = schema.environment.c
    first = (
        select(job.id)
        .where(job.device_id == schema.device.c.id, _is_timed(run.id))
        .order_by(job.id)
        .limit(1)
        .correlate(schema.run, schema.device)
        .scalar_subquery()
    )
    query = (
        select_record(
            _Ran,
            *(schema.environment, schema.attempt),
            device_id=schema.device.c.id,
            run=run.id,
            build=schema.build.c.name,
        )
        .select_from(schema.run)
        .join(schema.device, run.id.in_(runs))
        .join(schema.attempt, attempt.job_id == first)
        .join(schema.environment, environment.hash == attempt.environment)
        .outerjoin(schema.build, schema.build.c.sha == attempt.bundle)
        .order_by(run.created_at.desc(), run.id.desc())
    )
    return fetch(tx, query, _Ran)


def _last_two(tx: Connection, ran: Sequence[_Ran], what: str) -> tuple[_Ran, _Ran] | None:
    """Old and new: the newest run, and the newest that differs from it and has cases of it."""
    known = [earlier for earlier in ran if earlier.name_of(what).strip()]
    if not known:
        return None
    newest = known[0]
    for earlier in known:
        if earlier.name_of(what) != newest.name_of(what):
            return (earlier, newest) if _share_work(tx, earlier, newest) else None
    return None


def _share_work(tx: Connection, old: _Ran, new: _Ran) -> bool:
    job, other = schema.job.c, schema.job.alias("other")
    same = (getattr(other.c, name) == getattr(job, name) for name in _WORK)
    query = (
        select(job.id)
        .select_from(schema.job)
        .join(other, and_(*same))
        .where(
            *(_is_timed(new.run), job.device_id == new.device_id),
            *(other.c.run_id == old.run, other.c.state == JobState.PASSED),
        )
        .limit(1)
    )
    return tx.execute(query).first() is not None


def _is_timed(run: ColumnElement[int] | int) -> ColumnElement[bool]:
    """Whether a job is a right timing of a run."""
    job = schema.job.c
    return (job.run_id == run) & (job.mode == Mode.PERFORMANCE) & (job.state == JobState.PASSED)
