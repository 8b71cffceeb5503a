"""Is a level that was measured just now plain beside what its series does by itself?

Values of one sitting agree with each other better than with those of another day. So they have to
be beyond what single results scatter by, and beyond how far the series moves anyway in as many
results as lie between: where it wanders slowly, its last results say more than its level. `vkbench
selftest detector --only lab` tells how many harmless drivers are blamed all the same.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from vkbench_detection.statistics.ratios import Floats
from vkbench_detection.statistics.screen import (
    CLIPPED_SIGMAS,
    JUMP_SIGMAS,
    REFERENCE,
    SIGMA_FLOOR,
    SIGMA_OF_MAD,
    reference,
)

BESIDE = 5  # results before a change that those of now are held against, for a series that wanders
LEAST_KNOWN = 8  # results of a level, of which fewer know it badly
MOST_SINCE = 4  # results after a change that are looked at: after more, a series has moved anyway
OF_MEDIANS = 1.25  # variance of a median of few results, to that of their mean
LONGEST_MEMORY = 20  # movements
LEAST_FREEDOM = 1.5
TAIL = 0.0005  # share of such movements that are farther, on one side


def is_plain(now: Floats, segment: Floats, earlier: Floats, since: Floats) -> bool:
    """Whether logarithms of now are plainly off the level that a series had before a change.

    `segment` has the results before it, `since` those after it, and `earlier` those of other levels
    before the segment, without these levels.
    """
    level, before = _middle(segment), np.concatenate([earlier + _middle(segment), segment])
    after = np.append(since[:MOST_SINCE], _middle(now))
    _, sigma = reference(tuple(before[-REFERENCE:].tolist()))
    change = _middle(after) - level
    if abs(change) < JUMP_SIGMAS * sigma * _width(len(segment), len(after)):
        return False
    beside = min(len(before) // 3, max(BESIDE, len(after)))
    jump = _middle(after) - _middle(segment[-beside:])
    return jump * change > 0 and abs(jump) >= _farthest_move(before, beside, len(after))


def _width(before: int, after: int) -> float:
    """How far a change of level may be off by chance, to how far a single result may be."""
    known = 1 / before if before < LEAST_KNOWN else 0.0
    return sqrt(known + (OF_MEDIANS / after if after > 1 else 1.0))


def _farthest_move(values: Floats, beside: int, after: int) -> float:
    """How far the level of a few results moves by itself from that of those before them."""
    from scipy.special import stdtrit

    after = min(after, len(values) - beside)
    later = _middles(values, after)[beside:]
    moves = later - _middles(values, beside)[: len(later)]
    usual = SIGMA_OF_MAD * float(np.median(np.abs(moves)))
    tame = np.clip(moves, -CLIPPED_SIGMAS * usual, CLIPPED_SIGMAS * usual)
    sigma = max(SIGMA_FLOOR, sqrt(float(tame @ tame) / len(tame)))
    # Windows overlap: no more movements are independent than windows follow each other.
    freedom = min(_freedom(tame), max(LEAST_FREEDOM, len(values) / beside))
    return sigma * float(stdtrit(freedom, 1 - TAIL))


def _middle(values: Floats) -> float:
    return float(np.median(values))


def _middles(values: Floats, count: int) -> Floats:
    windows = np.lib.stride_tricks.sliding_window_view(values, count)
    return np.asarray(np.median(windows, axis=1))


def _freedom(moves: Floats) -> float:
    """How many movements for themselves tell as much as these, which remember each other."""
    count = len(moves)
    total = float(moves @ moves) or 1.0
    lags = range(1, min(count // 3, LONGEST_MEMORY))
    memories = (float(moves[:-lag] @ moves[lag:]) / total for lag in lags)
    excess = sum(max(0.0, memory**2 - 1 / count) for memory in memories)
    return max(LEAST_FREEDOM, count / (1 + 2 * excess))
