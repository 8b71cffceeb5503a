"""Where the states lie that tokens leave to the next ones.

A cache of keys keeps all positions, so that a run can be repeated. A state is of one position. So
each sequence has three slots: one of zeros, which stands for no tokens, and two that runs read and
write by turns. A run that is repeated at its place finds what it read, and leaves the same again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from vkbench.errors import UsageError
from vkbench_shaders.formats import Array

SLOTS: Final = 3  # of a sequence
_EMPTY: Final = 0  # the slot of zeros


@dataclass(frozen=True, kw_only=True)
class Turn:
    """The slot that a run reads states from, and the one that it leaves them in."""

    source: int = _EMPTY
    target: int = _EMPTY + 1


@dataclass(frozen=True, kw_only=True)
class StateRows:
    """Rows of a table of states that a graph is given: those of a turn's slot."""

    height: int  # rows of a sequence
    is_read: bool  # or else written

    @property
    def name(self) -> str:
        """What the graph calls them."""
        return f"states.{'before' if self.is_read else 'behind'}.{self.height}"

    def numbers(self, batch: int, turn: Turn) -> Array:
        """The rows of all sequences."""
        slot = turn.source if self.is_read else turn.target
        return np.arange(
            slot * batch * self.height, (slot + 1) * batch * self.height, dtype=np.int32
        )


class StateSlots:
    """Which slot holds the states behind which position."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}  # slot -> tokens read

    def choose_slots(self, start: int, end: int) -> Turn:
        """The slots of a run that reads the tokens from one position to another.

        The run has to follow: from now on its target counts as the states behind `end`.
        """
        source = _EMPTY if not start else self._find_slot(start)
        target = next(slot for slot in range(1, SLOTS) if slot != source)
        self._places = {source: start, target: end} if start else {target: end}
        return Turn(source=source, target=target)

    def _find_slot(self, start: int) -> int:
        for slot, place in self._places.items():
            if place == start:
                return slot
        known = " and ".join(map(str, sorted(self._places.values()))) or "none"
        raise UsageError(
            f"no states are behind {start} tokens, only behind {known}: the tokens before have "
            "to be read first"
        )
