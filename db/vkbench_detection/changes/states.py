"""The states of a change point, their groups, and from which state each is reached.

    suspected ── confirming ── confirmed | dismissed | ambiguous

A suspicion need not be measured again to be decided. A decision may be revised: more results
confirm what was dismissed or ambiguous, or make it suspected again, so that it is measured once
more. So is what proves to lie at another place.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ChangeState(StrEnum):
    """How far a change point is."""

    SUSPECTED = "suspected"
    CONFIRMING = "confirming"  # pairs are being measured
    CONFIRMED = "confirmed"
    DISMISSED = "dismissed"
    AMBIGUOUS = "ambiguous"  # looked into, and neither confirmed nor dismissed


UNDECIDED = (ChangeState.SUSPECTED, ChangeState.CONFIRMING)
DECIDED = (ChangeState.CONFIRMED, ChangeState.DISMISSED, ChangeState.AMBIGUOUS)
UNCERTAIN = (*UNDECIDED, ChangeState.AMBIGUOUS)  # listed for people beside the regressions
REPORTED = (ChangeState.CONFIRMED, *UNDECIDED)  # shown in the summary of a run

# where several change points lie near a shift of the history, it is the one whose state comes first
NEAREST = (
    ChangeState.CONFIRMED,
    ChangeState.CONFIRMING,
    ChangeState.SUSPECTED,
    ChangeState.AMBIGUOUS,
    ChangeState.DISMISSED,
)

REACHED_FROM: Mapping[ChangeState, tuple[ChangeState, ...]] = {
    # a new change point comes from none
    ChangeState.SUSPECTED: (*UNDECIDED, ChangeState.DISMISSED, ChangeState.AMBIGUOUS),
    ChangeState.CONFIRMING: (ChangeState.SUSPECTED,),
    ChangeState.CONFIRMED: (*UNDECIDED, ChangeState.DISMISSED, ChangeState.AMBIGUOUS),
    ChangeState.DISMISSED: UNDECIDED,
    ChangeState.AMBIGUOUS: (*UNDECIDED, ChangeState.DISMISSED),
}
