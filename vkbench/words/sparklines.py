"""Sparklines of letters, for where no picture is shown: comments of forges, terminals."""

from __future__ import annotations

from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
MOST = 24  # values that are drawn: the last ones
LEAST_SPAN = 0.1  # of the median: what scatters by less is drawn flat


def sparkline(values: Sequence[float]) -> str:
    """The last values as blocks, a high one above a low one; "" of fewer than two."""
    drawn = values[-MOST:]
    if len(drawn) < 2:
        return ""
    low, high = min(drawn), max(drawn)
    span = max(high - low, LEAST_SPAN * abs(low)) or 1.0
    return "".join(BLOCKS[round((value - low) / span * (len(BLOCKS) - 1))] for value in drawn)
