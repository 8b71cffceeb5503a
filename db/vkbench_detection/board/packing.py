"""How an index keeps the timings of one run and one page: numbers side by side, in three blobs.

What kinds say are the run's own numbers of its words and devices, which its row translates to those
of the index. So another index takes bunches as they are, and only runs are numbered anew.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from vkbench_db.errors import ImportRefused
from vkbench_detection.board.lines import Apart
from vkbench_detection.board.reading import Bunch, Kind

APARTS: Final = tuple(Apart)
MOST_WORDS: Final = 100_000  # of a run, which are in memory until it ends: at most 100 MB
Blobs = tuple[bytes, bytes, bytes]  # kinds, places and seconds


class PackedKind(NamedTuple):
    """What timings of one run and one page have in common, in numbers of the index."""

    device: int
    variant: int
    driver: int
    build: int
    metric: int
    path: int
    bytes_moved: int
    flops: int
    apart: int  # of APARTS


_FIELDS: Final = len(PackedKind._fields)
_TEXTS: Final = 5  # of them, behind the device


class RunNumbers:
    """A run's own numbers of its words and devices, each in the order in which they came."""

    def __init__(self) -> None:
        self.words: dict[str, int] = {}
        self.devices: dict[str, int] = {}  # by key

    def pack(self, bunch: Bunch) -> Blobs:
        """The blobs of a bunch; ImportRefused if its run has too many words."""
        kinds = array("q", chain.from_iterable(map(self._describe, bunch.kinds)))
        if len(self.words) > MOST_WORDS:
            raise ImportRefused(f"a run has over {MOST_WORDS} names of variants, drivers, builds")
        return kinds.tobytes(), bunch.places.tobytes(), bunch.seconds.tobytes()

    def _describe(self, kind: Kind) -> tuple[int, ...]:
        words, texts = self.words, (kind.variant, kind.driver, kind.build, kind.metric, kind.path)
        return (
            self.devices.setdefault(kind.device, len(self.devices)),
            *(words.setdefault(text, len(words)) for text in texts),
            kind.bytes_moved,
            kind.flops,
            APARTS.index(kind.apart),
        )


def unpack_kinds(
    kinds: bytes, words: Sequence[int], devices: Sequence[int]
) -> Iterator[PackedKind]:
    """The kinds of a bunch, by the numbers that its run translates to."""
    numbers = array("q", kinds)
    for start in range(0, len(numbers), _FIELDS):
        own = numbers[start : start + _FIELDS]
        texts, rest = own[1 : 1 + _TEXTS], own[1 + _TEXTS :]
        yield PackedKind(devices[own[0]], *(words[text] for text in texts), *rest)


def unpack_timings(places: bytes, seconds: bytes) -> Iterator[tuple[int, float]]:
    """The place of each timing's kind, and its seconds."""
    return zip(array("I", places), array("d", seconds), strict=True)


def pack_numbers(numbers: Sequence[int]) -> bytes:
    """Numbers of an index, in the order of a run's own, as a blob."""
    return array("I", numbers).tobytes()


def unpack_numbers(packed: bytes) -> array[int]:
    """The numbers of such a blob, in the order of a run's own."""
    return array("I", packed)


def renumber(packed: bytes, new: Mapping[int, int]) -> bytes:
    """Such a blob for another index, by its numbers of the same words or devices."""
    return pack_numbers([new[number] for number in unpack_numbers(packed)])
