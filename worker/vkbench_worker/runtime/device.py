"""The four nouns of the runtime, and the steps that a recording is made of.

A `Device` makes `Buffer`s and `Pipeline`s; a `Recording` runs steps on them and returns seconds.
Everything above takes these. `vulkan/` implements them with a driver, `null.py` with numpy, and
peers with a library; each is given back only what its own device made, and `as_own` checks that.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from vkbench.device import DeviceFacts, Environment
from vkbench.result import Statistic
from vkbench_worker.runtime.load import Load
from vkbench_worker.runtime.program import Bytes, Image, Program

T = TypeVar("T")


class Buffer(Protocol):
    """Memory of a device between guard bands."""

    @property
    def size(self) -> int:
        """Bytes of its data, without the guard bands."""

    def upload(self, data: np.ndarray) -> None:
        """Fill guard bands with poison and copy data in, before whatever runs next."""

    def fill(self, word: int) -> None:
        """Fill data and guard bands with a word, before whatever runs next."""

    def copy_from(self, other: Buffer) -> None:
        """Copy data and guard bands of a buffer of the same size, on the device."""

    def close(self) -> None:
        """Give the memory back; closing twice is fine."""


class Pipeline(Protocol):
    """A program that its device made ready; the device keeps and closes it."""

    @property
    def bindings(self) -> tuple[int, ...]:
        """Numbers that the shader knows the buffers of a launch by."""


@dataclass(frozen=True)
class Dispatch:
    """One launch of a pipeline on buffers."""

    pipeline: Pipeline
    buffers: Sequence[Buffer]
    groups: tuple[int, int, int]
    push: bytes


@dataclass(frozen=True)
class Barrier:
    """Have what follows begin after what came before, and see what it wrote."""

    launches_only: bool = False  # whether copies and fills are on neither side


@dataclass(frozen=True)
class Stamp:
    """Write a timestamp once all that came before is done."""


@dataclass(frozen=True)
class Fill:
    """Overwrite every byte of a buffer with zeros."""

    buffer: Buffer


@dataclass(frozen=True)
class Copy:
    """Copy the data of a buffer, not its guards, to another of the same size."""

    source: Buffer
    target: Buffer


Step = Dispatch | Fill | Copy | Barrier | Stamp


@dataclass(frozen=True, eq=False)
class Piece:
    """Some bytes of a buffer that are copied from or to the host."""

    buffer: Buffer
    start: int
    size: int
    data: Bytes | None = None  # what is uploaded


@dataclass(frozen=True, kw_only=True)
class Part:
    """Steps of a submission of their own, between an upload and a read-back, if there are any."""

    steps: Sequence[Step]
    uploads: Sequence[Piece] = ()
    reads: Sequence[Piece] = ()


class Recording(Protocol):
    """Recorded steps, which run as often as one likes."""

    def run(self) -> list[float]:
        """Run the steps now and wait: seconds from each stamp to the next."""

    def enqueue(self) -> None:
        """Run the steps with the next submission; at once where the host times."""

    def seconds(self) -> list[float]:
        """Seconds of the last run, which is submitted if it still waits."""

    def close(self) -> None:
        """Free everything that the recording holds."""


class Flight(Recording, Protocol):
    """A recording whose parts overlap with copies to and from the host."""

    def bytes_read(self) -> list[Bytes]:
        """Bytes that the last run read back, one array for each piece."""


class Device(Protocol):
    """One device, open for computing."""

    facts: DeviceFacts
    environment: Environment
    pci_address: str  # where it sits on the bus, as sysfs writes it, or ""
    load: Load  # whether its clock is still up
    checks_bounds: bool  # of all pipelines: accesses outside the buffers reach nothing
    makes_ahead: bool  # whether `make_ahead` does anything

    @property
    def clock(self) -> str:
        """Which clock times recordings: gpu or host."""

    @property
    def tick_seconds(self) -> float:
        """Seconds of one tick of that clock."""

    @property
    def patience_seconds(self) -> float:
        """Longest wait for one submission."""

    @patience_seconds.setter
    def patience_seconds(self, seconds: float) -> None: ...

    def memory_left(self) -> int:
        """Bytes of device memory that may still be allocated."""

    def memory_of_others(self) -> int | None:
        """Bytes of device memory that other processes hold; None where nobody says."""

    def buffer(self, size: int) -> Buffer:
        """A new buffer of `size` bytes."""

    def pipeline(self, program: Program) -> Pipeline:
        """The pipeline of a program."""

    def make_ahead(self, program: Program) -> None:
        """Begin to make a pipeline that will be asked for soon; errors wait until then."""

    def held_pipelines(self) -> AbstractContextManager[None]:
        """Pipelines that are asked for in this context stay until its end."""

    def stop_making(self) -> None:
        """Have nothing made ahead any more, until more is asked for."""

    def record(self, steps: Sequence[Step]) -> Recording:
        """Steps ready to be run."""

    def flight(self, parts: Sequence[Part], depth: int) -> Flight:
        """Parts ready to be submitted, of which so many are in flight at once."""

    def images(self, whole: Sequence[Buffer], guards: Sequence[Buffer] = ()) -> list[Image]:
        """What buffers hold now, guard bands included; of the second ones only the guard bands."""

    def list_statistics(self, programs: Sequence[Program]) -> list[Statistic]:
        """What the driver says of the pipelines of programs, made once more for that."""

    def time_submission(self, recording: Recording) -> float:
        """Run a recording: the host's seconds until the driver has taken it."""

    def raise_messages(self) -> None:
        """Raise what the validation layer had to say since the last call."""

    def save_cache(self) -> None:
        """Keep the pipelines made so far for later processes."""


def as_own(kind: type[T], noun: Buffer | Pipeline | Recording) -> T:
    """What a device made, as it knows it; TypeError for that of another kind of device."""
    if not isinstance(noun, kind):
        raise TypeError(f"a {type(noun).__name__} is given where a {kind.__name__} is needed")
    return noun
