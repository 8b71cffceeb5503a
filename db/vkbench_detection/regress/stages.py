"""The stages of a regression, their groups, and from which stage each is reached.

open ── acknowledged ── fixed ── verified      closed, from any of them
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class RegressionStage(StrEnum):
    """How far a regression is."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"  # its owner works on it
    FIXED = "fixed"  # times or verdicts are back
    VERIFIED = "verified"  # and stay so
    CLOSED = "closed"


UNSETTLED = (RegressionStage.OPEN, RegressionStage.ACKNOWLEDGED)
TO_DO = (*UNSETTLED, RegressionStage.FIXED)  # what people have to look at
JOINED = (*UNSETTLED, RegressionStage.FIXED)  # a new change with the same key joins these
AGAIN, GROWN = "again", "grown"  # events: it was fixed and is back; it has more devices or kernels
ANNOUNCED: tuple[str, ...] = (  # events that people are alerted to
    RegressionStage.OPEN,
    AGAIN,
    GROWN,
    RegressionStage.FIXED,
    RegressionStage.VERIFIED,
)

_ANY = frozenset(RegressionStage)
REACHED_FROM: Mapping[RegressionStage, frozenset[RegressionStage]] = {
    RegressionStage.OPEN: _ANY - {RegressionStage.OPEN},
    RegressionStage.ACKNOWLEDGED: frozenset((RegressionStage.OPEN,)),
    RegressionStage.FIXED: frozenset(UNSETTLED),
    RegressionStage.VERIFIED: frozenset((RegressionStage.FIXED,)),
    RegressionStage.CLOSED: _ANY - {RegressionStage.CLOSED},
}
