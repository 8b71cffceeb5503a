"""A peer as a device: what judges and times kernels judges and times it, by the same steps.

A launch is one call of the peer's function on arrays that lie in buffers between guard bands, so
that outputs are poisoned, compared and sampled as a kernel's are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Generic, TypeVar

import numpy as np

from vkbench.device import DeviceFacts, Environment
from vkbench_shaders.kernel import Layout, Problem
from vkbench_shaders.quantisers import quants
from vkbench_worker.peers.library import Call, Library, Row, View
from vkbench_worker.peers.table import row_of, working_format
from vkbench_worker.runtime.device import (
    Barrier,
    Buffer,
    Dispatch,
    Fill,
    Flight,
    Part,
    Stamp,
    Step,
    as_own,
)
from vkbench_worker.runtime.eager import EagerDevice, EagerRecording
from vkbench_worker.runtime.errors import Unsupported
from vkbench_worker.runtime.program import GUARD, POISON_A, Image, Program, region_bytes

M = TypeVar("M")


class PeerBuffer(Generic[M]):
    """Memory of a library between guard bands."""

    def __init__(self, library: Library[M], size: int) -> None:
        self.size = size
        self.poison = POISON_A
        self.memory = library.memory(region_bytes(size))
        self.in_order: Callable[[np.ndarray], np.ndarray] = _as_it_is
        self._library = library

    def upload(self, data: np.ndarray) -> None:
        self.fill(POISON_A)
        self._library.write(self.memory, GUARD, np.ascontiguousarray(data))

    def fill(self, word: int) -> None:
        self.poison = word
        self._library.fill(self.memory, word)

    def copy_from(self, other: Buffer) -> None:
        source = as_own(PeerBuffer, other)
        self.poison = source.poison
        self._library.copy(source.memory, self.memory)

    def image(self, *, data: bool) -> Image:
        """What the memory holds, or its guards alone."""
        read, end = self._library.read, region_bytes(self.size)
        behind = GUARD + self.size
        return Image(
            read(self.memory, 0, GUARD),
            self.in_order(read(self.memory, GUARD, behind)) if data else read(self.memory, 0, 0),
            read(self.memory, behind, end),
            poison=self.poison,
        )

    def close(self) -> None:
        """Let go of the memory, which the library then frees."""
        self.memory, self.in_order = self._library.memory(0), _as_it_is


def _as_it_is(data: np.ndarray) -> np.ndarray:
    return data


class Operation(Generic[M]):
    """A problem by a function of a library: what a pipeline is to a kernel."""

    def __init__(self, library: Library[M], problem: Problem) -> None:
        self.problem = problem
        self.bindings = tuple(range(len(problem.kernel.bindings)))
        self.row: Row = row_of(problem, library)
        self._library = library
        self._bound: dict[tuple[int, ...], Call] = {}

    def bound(self, buffers: Sequence[PeerBuffer[M]]) -> Call:
        """The function with arrays of these buffers; made once for each set of them."""
        key = tuple(map(id, buffers))
        return self._bound.get(key) or self._bound.setdefault(key, self._bind(buffers))

    def _bind(self, buffers: Sequence[PeerBuffer[M]]) -> Call:
        names = [binding.name for binding in self.problem.kernel.bindings]
        views = {
            name: self._view(name, buffer) for name, buffer in zip(names, buffers, strict=True)
        }
        by_name = dict(zip(names, buffers, strict=True))
        for name in self.row.order:
            by_name[name].in_order = partial(self._in_order, name, by_name)
        return self._library.bind(self.row.function, self.row.arguments(self.problem, views))

    def _in_order(
        self, name: str, buffers: Mapping[str, PeerBuffer[M]], data: np.ndarray
    ) -> np.ndarray:
        """The bytes of an output that the library stores otherwise, as ours lie."""

        def array(of: str, stored: np.ndarray) -> np.ndarray:
            return self.problem.layout(of).view(stored.view(self.problem.format(of).dtype))

        def given_array(of: str) -> np.ndarray:
            return array(of, buffers[of].image(data=True).data)

        ordered = data.copy()
        stored = array(name, ordered)
        stored[...] = self.row.order[name](self.problem, array(name, data), given_array)
        return ordered

    def _view(self, name: str, buffer: PeerBuffer[M]) -> View:
        fmt, layout = self.problem.format(name), self.problem.layout(name)
        working = working_format(self.row, self._library, self.problem, name)
        if working == fmt.name or not self.problem.reads(name):
            return self._library.view(buffer.memory, GUARD, fmt, layout)
        return self._library.array(self._numbers(name, layout, buffer), working)

    def _numbers(self, name: str, layout: Layout, buffer: PeerBuffer[M]) -> np.ndarray:
        stored = buffer.image(data=True).data.view(self.problem.format(name).dtype)
        return quants.dequantise(
            self.problem.types[name], np.ascontiguousarray(layout.view(stored))
        )


class PeerRecording(EagerRecording, Generic[M]):
    """Steps as calls, in segments that stamps end."""

    def __init__(self, library: Library[M], steps: Sequence[Step]) -> None:
        segments: list[list[Call]] = [[]]
        for step in steps:
            match step:
                case Dispatch():
                    operation = as_own(Operation, step.pipeline)
                    buffers = [as_own(PeerBuffer, buffer) for buffer in step.buffers]
                    segments[-1].append(operation.bound(buffers))
                case Fill():
                    segments[-1].append(partial(step.buffer.fill, 0))
                case Stamp():
                    segments.append([])
                case Barrier():
                    pass
        self._time = library.time_segments(segments[:-1])

    def _run(self) -> list[float]:
        return self._time()


class PeerDevice(EagerDevice, Generic[M]):
    """A device of this host as a library uses it."""

    def __init__(
        self,
        library: Library[M],
        facts: DeviceFacts,
        environment: Environment,
        gauge: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(gauge)
        self.facts, self.environment = facts, environment
        self.clock = library.clock
        self.tick_seconds = library.tick_seconds
        self._library = library

    def memory_left(self) -> int:
        """Nothing is counted: a library says so itself when it has no more."""
        return self.facts.memory_bytes

    def buffer(self, size: int) -> PeerBuffer[M]:
        return PeerBuffer(self._library, size)

    def pipeline(self, program: Program) -> Operation[M]:
        """The function that does a program's problem."""
        if program.problem is None:
            raise ValueError("a peer runs problems, and no code")
        return Operation(self._library, program.problem)

    def record(self, steps: Sequence[Step]) -> PeerRecording[M]:
        return PeerRecording(self._library, steps)

    def flight(self, parts: Sequence[Part], depth: int) -> Flight:
        raise Unsupported("a peer has no submissions in flight")

    def images(self, whole: Sequence[Buffer], guards: Sequence[Buffer] = ()) -> list[Image]:
        buffers = [(buffer, True) for buffer in whole] + [(buffer, False) for buffer in guards]
        return [as_own(PeerBuffer, buffer).image(data=data) for buffer, data in buffers]
