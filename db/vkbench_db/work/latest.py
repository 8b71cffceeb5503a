"""The latest result of each piece of work, kept in a table of its own.

Years of results have few pieces of work: a device, a case, a mode and a variant. Pages that show
where things stand read this table; to look for the newest among all jobs would take seconds.

Whoever ends jobs notes them here in the same transaction. Sweeps are not noted: what they try is no
state of things.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, or_, select

from vkbench.run import RunKind
from vkbench_db import schema
from vkbench_db.batches import batches

_WORK = ("device_id", "case_id", "mode", "variant")
_NOTED = ("job_id", "state", "finished_at")


def note(tx: Connection, jobs: Iterable[int]) -> None:
    """Note those of these jobs that ended; a newer one that is known stays."""
    for batch in batches(sorted(set(jobs))):
        _note(tx, schema.job.c.id.in_(batch))


def note_runs(tx: Connection, runs: Collection[int]) -> None:
    """Note all jobs of these runs that ended."""
    _note(tx, schema.job.c.run_id.in_(runs))


def is_ours(program: str = "") -> ColumnElement[bool]:
    """Whether a latest result is of our kernels, or of the builds of a program.

    No import of what another program timed is.
    """
    job, run = schema.job.c, schema.run.c
    theirs = select(job.id).join(schema.run, run.id == job.run_id).where(run.kind == RunKind.IMPORT)
    computed = schema.latest.c.variant
    builds = select(schema.build.c.program)
    is_of = computed == program if program else computed.not_in(builds)
    return schema.latest.c.job_id.not_in(theirs) & is_of


def _note(tx: Connection, which: ColumnElement[bool]) -> None:
    if tx.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert  # type: ignore[assignment]
    table = schema.latest.c
    statement = insert(schema.latest).from_select([*_WORK, *_NOTED], _newest(which))
    new = statement.excluded
    is_newer = or_(
        new.finished_at > table.finished_at,
        and_(new.finished_at == table.finished_at, new.job_id > table.job_id),
    )
    tx.execute(
        statement.on_conflict_do_update(
            index_elements=_WORK, set_={name: new[name] for name in _NOTED}, where=is_newer
        )
    )


def _newest(which: ColumnElement[bool]) -> Select[Any]:
    """The newest of each piece of work, in an order that all transactions lock rows in."""
    job = schema.job.c
    work = [job[name] for name in _WORK]
    order = (job.finished_at.desc(), job.id.desc())
    ranked = (
        select(
            *(*work, job.id, job.state, job.finished_at),
            func.row_number().over(partition_by=work, order_by=order).label("place"),
        )
        .join(schema.run, schema.run.c.id == job.run_id)
        .where(which, job.finished_at.is_not(None), schema.run.c.kind != RunKind.SWEEP)
        .subquery()
    )
    newest = ranked.c
    own = [newest[name] for name in _WORK]
    return (
        select(*own, newest.id, newest.state, newest.finished_at)
        .where(newest.place == 1)
        .order_by(*own)
    )
