"""The level that a series is at: its results since the last confirmed change."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import log
from statistics import median

from sqlalchemy import Connection, select

from vkbench_db import schema
from vkbench_db.rows import fetch
from vkbench_detection.changes.change_point import ChangePoint, Method
from vkbench_detection.changes.states import ChangeState
from vkbench_detection.series.points import Point


def changes_of(tx: Connection, series: int) -> list[ChangePoint]:
    """The changes of a series' times, suspected and decided ones, the first found first."""
    change = schema.change_point.c
    query = select(schema.change_point).where(change.series_id == series, change.ratio.is_not(None))
    return fetch(tx, query.order_by(change.id), ChangePoint)


def begins_level(row: ChangePoint) -> bool:
    """Whether a series has a new level from this change on."""
    return row.state == ChangeState.CONFIRMED and row.method != Method.DECAY


def first_jobs(known: Sequence[ChangePoint]) -> set[int]:
    """The first job of each level."""
    return {row.after_job for row in known if begins_level(row)}


def of_one_level(results: Sequence[Point], first: Collection[int]) -> Sequence[Point]:
    """The last results of one level; `first` are the first jobs of levels."""
    starts = [place for place, point in enumerate(results) if point.job in first]
    return results[starts[-1] :] if starts else results


def level(results: Sequence[Point]) -> float:
    """The median of the logarithms of seconds."""
    return median(log(point.seconds) for point in results)
