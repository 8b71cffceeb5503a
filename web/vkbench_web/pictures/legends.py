"""What the colours of a heat map mean: a swatch for each, with its words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # of the roof, where the colour changes
CHANGES = (0.01, 0.03, 0.1)  # of time
SAME = "same"  # the colour of less
IN_CACHE = "in-cache"  # of what fits the cache: memory does not limit it

Swatch = tuple[str, str]  # class, words


def legend_of(show: str) -> Sequence[Swatch]:
    """The swatches of a map; none of correctness, whose signs say it."""
    if show == "roof":
        edges = (0.0, *SHARES, 1.0)
        swatches = [
            (f"share-{place}", f"{100 * low:.0f}–{100 * high:.0f} %")
            for place, (low, high) in enumerate(pairwise(edges))
        ]
        return [*swatches, (f"share-5 {IN_CACHE}", "fits the cache")]
    if show == "correctness":
        return []
    words = [f"over {100 * edge:.0f} %" for edge in CHANGES]
    slower = [(f"slower-{place}", f"slower by {word}") for place, word in enumerate(words, 1)]
    faster = [(f"faster-{place}", f"faster by {word}") for place, word in enumerate(words, 1)]
    return [*reversed(slower), (SAME, "the same"), *faster]


def name_tone(speed: float) -> str:
    """The colour class of a cell that is so many times as fast."""
    size = sum(abs(log(speed)) >= log(1 + edge) for edge in CHANGES)
    return f"{'faster' if speed > 1 else 'slower'}-{size}" if size else SAME
