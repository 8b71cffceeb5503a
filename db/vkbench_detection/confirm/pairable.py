"""Which series pairs can measure again; of the others their history alone decides.

Pairs do not divide a case among devices, and launch kernels that are compiled already.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement

from vkbench.job import SHARDS
from vkbench.result import UNPAIRED
from vkbench_db import schema


def can_pair(track: str, metric: str) -> bool:
    """Whether pairs measure such a series."""
    return track != SHARDS and metric not in UNPAIRED


def is_pairable() -> ColumnElement[bool]:
    """A condition on `series`: pairs measure it."""
    series = schema.series.c
    return (series.track != SHARDS) & series.metric.not_in(UNPAIRED)
