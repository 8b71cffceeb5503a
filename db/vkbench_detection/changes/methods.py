"""Names of the methods that find changes, as change points store them."""

from __future__ import annotations

from enum import StrEnum


class Method(StrEnum):
    """What found the change."""

    SCREEN = "screen"
    HISTORY = "history"
    BASELINE = "baseline"  # for a series with too few results for the screen
    KIN = "kin"  # in a level with too few results for the screen
    VERDICT = "verdict"
    DECAY = "decay"  # slower than a release, little by little: where it lies is not known
