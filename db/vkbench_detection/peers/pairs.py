"""Comparisons with peers: jobs that timed another program and our kernel in turns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, select
from sqlalchemy import case as sql_case

from vkbench.job import JobState, Mode
from vkbench.result import Side
from vkbench_db import schema
from vkbench_db.rows import fetch, select_record


@dataclass(frozen=True, kw_only=True)
class PeerPair:
    """What one job timed: both sides on one device, in turns."""

    host: str
    device: str  # key
    device_name: str
    case_name: str
    kernel: str
    format: str
    peer: str
    settings: str  # of the peer: its version, what it converted, and our code path
    run: int
    job: int
    finished_at: float
    clock: str  # of ours
    peer_clock: str
    ours: float  # seconds: median and its interval
    ours_low: float
    ours_high: float
    theirs: float
    theirs_low: float
    theirs_high: float


@dataclass(frozen=True, kw_only=True)
class Uncompared:
    """A case on which a peer and our kernel were not compared, and why."""

    host: str
    device: str  # key
    device_name: str
    case_name: str
    peer: str
    reason: str
    run: int
    job: int
    finished_at: float


def peer_pairs(tx: Connection, peers: Sequence[str] = (), run: int | None = None) -> list[PeerPair]:
    """The latest comparison of each case with each of these peers (all if none), or a run's."""
    return _pairs(tx, *_conditions_for_jobs(peers, run))


def pairs_of_jobs(tx: Connection, jobs: Collection[int]) -> list[PeerPair]:
    """The comparisons with peers that these jobs made."""
    return _pairs(tx, schema.job.c.id.in_(jobs))


def pairs_of_case(tx: Connection, device: str, case: str) -> list[PeerPair]:
    """The latest comparison of a case on a device with each peer."""
    return _pairs(
        tx,
        *_conditions_for_jobs(),
        schema.device.c.key == device,
        schema.kernel_case.c.name == case,
    )


def pairs_of_device(tx: Connection, device: str, peer: str) -> list[PeerPair]:
    """The latest comparison of each case on a device with a peer."""
    return _pairs(tx, *_conditions_for_jobs([peer]), schema.device.c.key == device)


def peers_of_device(tx: Connection, device: str) -> list[str]:
    """The peers that cases were compared with on a device; not those that all cases lack."""
    latest, table = schema.latest.c, schema.device.c
    query = (
        select(latest.variant)
        .join(schema.device, table.id == latest.device_id)
        .where(
            latest.mode == Mode.PEER,
            latest.state == JobState.PASSED,
            table.key == device,
        )
        .distinct()
        .order_by(latest.variant)
    )
    return list(tx.execute(query).scalars())


def _pairs(tx: Connection, *where: ColumnElement[bool]) -> list[PeerPair]:
    job, timing = schema.job.c, schema.measurement
    own, theirs = timing.alias("ours"), timing.alias("theirs")
    host, device, case = schema.host.c, schema.device.c, schema.kernel_case.c
    query = (
        select_record(
            PeerPair,
            *(schema.job, schema.attempt, own),
            peer=job.variant,
            run=job.run_id,
            job=job.id,
            ours=own.c.seconds,
            ours_low=own.c.low,
            ours_high=own.c.high,
            theirs=theirs.c.seconds,
            theirs_low=theirs.c.low,
            theirs_high=theirs.c.high,
            peer_clock=theirs.c.clock,
        )
        .select_from(schema.named_jobs)
        .join(schema.attempt, schema.is_settling)
        .join(own, (own.c.job_id == job.id) & (own.c.side == Side.OURS))
        .join(theirs, (theirs.c.job_id == job.id) & (theirs.c.side == Side.THEIRS))
        .where(*where, own.c.seconds > 0, theirs.c.seconds > 0)
        .order_by(host.name, device.name, job.variant, case.name, job.id)
    )
    return fetch(tx, query, PeerPair)


def earlier_pairs(tx: Connection, pair: PeerPair, most: int) -> list[PeerPair]:
    """The last comparisons like this one before it, newest first."""
    now, job, timing = schema.job.alias("now"), schema.job.c, schema.measurement.c
    alike = [job[name] == now.c[name] for name in ("case_id", "device_id", "mode", "variant")]
    timed = select(timing.job_id).where(
        timing.job_id == job.id, timing.side == Side.OURS, timing.seconds > 0
    )
    query = (
        select(job.id)
        .select_from(now)
        .join(schema.job, and_(*alike, job.finished_at <= now.c.finished_at, job.id != now.c.id))
        .where(now.c.id == pair.job, timed.exists())
        .order_by(job.finished_at.desc(), job.id.desc())
        .limit(most)
    )
    pairs = pairs_of_jobs(tx, list(tx.execute(query).scalars()))
    return sorted(pairs, key=lambda earlier: (earlier.finished_at, earlier.job), reverse=True)


def uncompared_cases(
    tx: Connection, peers: Sequence[str] = (), run: int | None = None
) -> list[Uncompared]:
    """The cases of such jobs that have no timings to compare, in order of the reasons."""
    job, host, device, case = schema.job.c, schema.host.c, schema.device.c, schema.kernel_case.c
    timing = schema.measurement.c
    untimed = select(timing.job_id).where(timing.job_id == job.id, timing.seconds <= 0)
    passed = job.state == JobState.PASSED
    reason = sql_case((passed, "a side took less time than its clock shows"), else_=job.reason)
    query = (
        select_record(
            *(Uncompared, schema.job),
            peer=job.variant,
            reason=reason,
            run=job.run_id,
            job=job.id,
        )
        .select_from(schema.named_jobs)
        .where(
            ~passed | untimed.exists(),
            job.finished_at.is_not(None),
            *_conditions_for_jobs(peers, run),
        )
        .order_by(job.variant, reason, case.name, host.name, device.name, job.id)
    )
    return fetch(tx, query, Uncompared)


def _conditions_for_jobs(
    peers: Sequence[str] = (), run: int | None = None
) -> list[ColumnElement[bool]]:
    job, latest = schema.job.c, schema.latest.c
    chosen = [job.mode == Mode.PEER]
    if peers:
        chosen.append(job.variant.in_(peers))
    if run is not None:
        return [*chosen, job.run_id == run]
    newest = select(latest.job_id).where(latest.mode == Mode.PEER)
    return [*chosen, job.id.in_(newest)]
