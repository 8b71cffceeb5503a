"""What formats and models lost, as accuracy runs found it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from vkbench.accuracy import Accuracy
from vkbench_db import schema
from vkbench_db.rows import fetch


@dataclass(frozen=True, kw_only=True)
class AccuracyRow(Accuracy):
    """A row of the view `v_accuracy`."""

    run: int
    run_uuid: str
    run_label: str
    position: int


def accuracies(tx: Connection, *, run: int | None = None) -> list[AccuracyRow]:
    """The rows of a run; without one the newest of each loss, of the newest run first."""
    view = schema.v_accuracy.c
    query = select(schema.v_accuracy)
    if run is not None:
        query = query.where(view.run == run)
    order = (view.measured_at.desc(), view.run.desc(), view.position)
    rows = fetch(tx, query.order_by(*order), AccuracyRow)
    return rows if run is not None else _newest(rows)


def _newest(rows: Sequence[AccuracyRow]) -> list[AccuracyRow]:
    """The first row of each loss."""
    first: dict[tuple[object, ...], AccuracyRow] = {}
    for row in rows:
        first.setdefault(_loss_of(row), row)
    return list(first.values())


def _loss_of(row: AccuracyRow) -> tuple[object, ...]:
    """What two rows measured again have in common."""
    what = (row.subject, row.model, row.weights, row.format, row.quantiser)
    against = (row.base, row.base_format)
    read = (row.text_sha, row.context, row.windows, row.cache, row.variant)
    return (*what, *against, *read, row.host, row.device_name)
