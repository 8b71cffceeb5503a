"""What a peer is: a library of functions on arrays, the memory they lie in, and a clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np

from vkbench_shaders.formats import Format
from vkbench_shaders.kernel import Layout
from vkbench_worker.peers.row import Row, View
from vkbench_worker.runtime.errors import Unsupported

M = TypeVar("M")  # memory: bytes that views are made of

Call = Callable[[], object]


class CannotDo(Unsupported):
    """The peer has no such operation; the reason of a skipped result."""


class Library(Protocol[M]):
    """An array library on one device."""

    name: str  # of the peer, as users ask for it
    version: str  # with those of the libraries below it
    clock: str  # gpu: the device's own time; host: wall time
    tick_seconds: float
    working: str  # format that it computes in where it has none of a case's formats
    widens: bool  # whether factors of several formats are made wide, and not narrow, to meet
    rows: Mapping[str, Row]  # kernels that it may have
    # operation -> what does it, the last argument being the output
    functions: Mapping[str, Callable[..., object]]

    def takes(self, function: str, fmt: str) -> bool:
        """Whether a function takes a format and is meant to be fast on it."""
        ...

    def memory(self, nbytes: int) -> M:
        """Memory on the device."""
        ...

    def write(self, memory: M, offset: int, data: np.ndarray) -> None:
        """Copy the host's bytes there."""
        ...

    def read(self, memory: M, start: int, end: int) -> np.ndarray:
        """A copy of bytes for the host."""
        ...

    def fill(self, memory: M, word: int) -> None:
        """Overwrite all of it with a word of 32 bits."""
        ...

    def copy(self, source: M, target: M) -> None:
        """Overwrite memory with other memory of its size."""
        ...

    def view(self, memory: M, offset: int, fmt: Format, layout: Layout) -> View:
        """An array of what lies in memory from a byte on."""
        ...

    def array(self, values: np.ndarray, fmt: str) -> View:
        """An array of its own that holds values in a format."""
        ...

    def bind(self, function: str, arguments: tuple[object, ...]) -> Call:
        """What does an operation on these arguments."""
        ...

    def timed(self, segments: Sequence[Sequence[Call]]) -> Callable[[], list[float]]:
        """What does all calls in order and returns the seconds of each segment but the first.

        The first one is done and not timed.
        """
        ...
