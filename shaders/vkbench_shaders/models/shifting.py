"""What a graph is given that shifts caches.

A cache is shifted where its context is full: the oldest positions are dropped, what is left moves
to the front, and keys are turned back, so that the text can go on without being read again.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from vkbench_shaders.formats import Array
from vkbench_shaders.models.graph import POSITIONS, ROWS, UNREAD, Phase

SOURCES: Final = "sources"  # the rows of a cache that move


def shift_arrays(phase: Phase, dropped: int) -> dict[str, Array]:
    """What such a graph is given, to drop so many positions."""
    count = phase.tokens
    rows = (np.arange(phase.batch)[:, None] * phase.room + np.arange(count)).reshape(-1)
    return {
        SOURCES: (rows + dropped).astype(np.int32),
        ROWS: rows.astype(np.int32),
        POSITIONS: np.full(count, -dropped, np.int32),
        UNREAD: np.zeros(4, np.float32),
    }
