"""What a peer is: functions on arrays, the memory they lie in, a clock, and a row a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from vkbench_shaders.formats import Format
from vkbench_shaders.kernel import Layout, Problem
from vkbench_worker.runtime.errors import Unsupported

M = TypeVar("M")  # memory: bytes that views are made of

Call = Callable[[], object]
# An array as a library has it: what those of numpy, torch and ggml have in common has no type.
View = Any
Views = Mapping[str, View]
Arguments = Callable[[Problem, Views], tuple[object, ...]]  # the outputs last
# an output in our order, from what the library stored and, by name, what it was given
Order = Callable[[Problem, np.ndarray, Callable[[str], np.ndarray]], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Row:
    """How a library does a kernel."""

    function: str
    arguments: Arguments
    params: frozenset[str] = frozenset()  # that a case may have beside those about arrays
    fits: Callable[[Problem], str] = lambda problem: ""  # what of a case it cannot do, or ""
    converted: tuple[str, ...] = ()  # factors that may be in the working format
    # arithmetic whose limits apply; "": that of the plainest variant
    path: str | Callable[[Problem], str] = ""
    on_gpu: str = ""  # the same on a GPU
    factors: tuple[str, ...] = ()  # inputs that have to be of one format to be multiplied
    # the same where factors were rounded to the format of the narrowest
    rounded: Mapping[str, str] = field(default_factory=dict)
    # how an output that the library stores otherwise becomes ours
    order: Mapping[str, Order] = field(default_factory=dict)


class CannotDo(Unsupported):
    """The peer has no such operation; the reason of a skipped result."""


class Library(Protocol[M]):
    """An array library on one device."""

    name: str  # of the peer, as users ask for it
    version: str  # with those of the libraries below it
    clock: str  # gpu: the device's own time; host: wall time
    tick_seconds: float
    working: str  # format that it computes in where it has none of a case's formats
    repeats: bool  # whether it promises the same bits from the same inputs
    widens: bool  # whether factors of several formats are made wide, and not narrow, to meet
    rows: Mapping[str, Row]  # kernels that it may have
    lacks: Mapping[str, str]  # how what it has differs from a kernel without a row
    # operation -> what does it, the last argument being the output
    functions: Mapping[str, Callable[..., object]]

    def takes(self, function: str, fmt: str) -> bool:
        """Whether a function takes a format and is meant to be fast on it."""
        ...

    def memory(self, nbytes: int) -> M:
        """Allocate memory on the device."""
        ...

    def write(self, memory: M, offset: int, data: np.ndarray) -> None:
        """Copy the host's bytes there."""
        ...

    def read(self, memory: M, start: int, end: int) -> np.ndarray:
        """A copy of bytes of the memory for the host."""
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
        """A call that does an operation on these arguments."""
        ...

    def time_segments(self, segments: Sequence[Sequence[Call]]) -> Callable[[], list[float]]:
        """A function that does all calls and returns the seconds of each segment but the first.

        The first one is done and not timed.
        """
        ...
