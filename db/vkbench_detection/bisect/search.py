"""The search of a bisection, without its measuring: where to look next in a row of good and bad.

The first place of a row is good and the last one bad. The last one is looked at too: it says how
bad bad is, and whether there is anything to search for. A round looks at one place a device; k
places cut what is open into k + 1 parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Word(StrEnum):
    """What is known of one place."""

    GOOD = "good"
    BAD = "bad"
    SKIPPED = "skipped"  # cannot be judged: it does not compile, or stayed ambiguous


@dataclass(frozen=True, kw_only=True)
class SearchSpan:
    """What is known: the first bad one lies after `low` and not after `high`."""

    low: int  # the last good one before `high`
    high: int  # the first bad one


def span(count: int, words: Mapping[int, Word]) -> SearchSpan:
    """Where the first bad one of `count` places lies, if the first is good and the last bad.

    Where bad ones come before good ones, the first change counts.
    """
    bad = [place for place, word in words.items() if word is Word.BAD]
    high = min(bad, default=count - 1)
    good = [place for place, word in words.items() if word is Word.GOOD and place < high]
    return SearchSpan(low=max(good, default=0), high=high)


def next_places(count: int, words: Mapping[int, Word], devices: int) -> list[int]:
    """Where to look now: at most one place a device, none when the search is over."""
    known = span(count, words)
    ends = [count - 1] if count - 1 not in words else []
    between = [place for place in range(known.low + 1, known.high) if place not in words]
    return [*_evenly(between, devices - len(ends)), *ends]


def suspects(count: int, words: Mapping[int, Word]) -> list[int]:
    """Places left when the search is over; one of them is the first bad bundle.

    There is more than one if places between the last good and the first bad one were skipped.
    """
    known = span(count, words)
    return list(range(known.low + 1, known.high + 1))


def _evenly(places: Sequence[int], most: int) -> list[int]:
    if len(places) <= most:
        return list(places)
    return [places[(part + 1) * len(places) // (most + 1)] for part in range(most)]
