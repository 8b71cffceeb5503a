"""What everything above the runtime asks of a device, be it a Vulkan one or the NullDevice."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol, Self, TypeVar

import numpy as np

from vkbench.device import DeviceFacts, Environment
from vkbench_worker.runtime.load import Load
from vkbench_worker.runtime.program import Image, Part, Program, Step


class Storage(Protocol):
    """A buffer between guard bands."""

    @property
    def size(self) -> int: ...

    def upload(self, data: np.ndarray) -> None: ...

    def fill(self, word: int) -> None: ...

    def copy_from(self, other: Self) -> None: ...

    def close(self) -> None: ...


class Runnable(Protocol):
    """Recorded launches that can run again."""

    def run(self) -> list[float]: ...

    def enqueue(self) -> None: ...

    def seconds(self) -> list[float]: ...

    def close(self) -> None: ...


class Flown(Runnable, Protocol):
    """Recorded launches whose parts overlap with copies to and from the host."""

    def arrived(self) -> list[np.ndarray]: ...


P = TypeVar("P")
B = TypeVar("B", bound=Storage)


class Computer(Protocol[P, B]):
    """A device that makes buffers and pipelines, and records launches."""

    @property
    def patience_seconds(self) -> float: ...

    @patience_seconds.setter
    def patience_seconds(self, seconds: float) -> None: ...

    @property
    def facts(self) -> DeviceFacts: ...

    @property
    def environment(self) -> Environment: ...

    @property
    def clock(self) -> str: ...

    @property
    def tick_seconds(self) -> float: ...

    @property
    def pci_address(self) -> str: ...

    @property
    def load(self) -> Load: ...

    def memory_left(self) -> int: ...

    def buffer(self, size: int) -> B: ...

    def pipeline(self, program: Program) -> P: ...

    @property
    def makes_ahead(self) -> bool: ...

    def make_ahead(self, program: Program) -> None: ...

    def held_pipelines(self) -> AbstractContextManager[None]: ...

    def quiet(self) -> None: ...

    def record(self, steps: Sequence[Step[P, B]]) -> Runnable: ...

    def flight(self, parts: Sequence[Part[P, B]], depth: int) -> Flown: ...

    def images(self, whole: Sequence[B], guards: Sequence[B] = ()) -> list[Image]: ...

    def raise_messages(self) -> None: ...

    def save_cache(self) -> None: ...
