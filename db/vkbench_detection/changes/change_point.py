"""A change point as it is stored, and the methods that find changes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vkbench.programs.build import is_of_build


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

    @property
    def is_of_build(self) -> bool:
        """Whether a build of a program computed what came after it."""
        return is_of_build(self.after_kernel, self.after_bundle)


class Method(StrEnum):
    """What found the change."""

    SCREEN = "screen"
    HISTORY = "history"
    BASELINE = "baseline"  # for a series with too few results for the screen
    KIN = "kin"  # in a level with too few results for the screen
    VERDICT = "verdict"
    DECAY = "decay"  # slower than a release, little by little: where it lies is not known
