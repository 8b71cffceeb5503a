"""A change point as it is stored."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ChangePoint:
    """A row of the table of change points."""

    id: int
    series_id: int
    method: str
    direction: str
    before_job: int
    after_job: int
    before_kernel: str
    after_kernel: str
    before_bundle: str
    after_bundle: str
    before_environment: str
    after_environment: str
    found_at: float
    ratio: float | None
    low: float | None
    high: float | None
    p: float | None
    state: str
    cause: str
