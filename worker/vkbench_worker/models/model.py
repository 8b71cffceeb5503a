"""A model on a device: phases that are recorded once and run at any place.

A run is one submission: the copies of its inputs, and the recording. All else stays on the device:
weights, and the caches of keys and values, which all phases share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vkbench_shaders.bundle import Bundle
from vkbench_shaders.gguf_file import GgufFile
from vkbench_shaders.kernel import Array
from vkbench_shaders.models.cases import parts_of
from vkbench_shaders.models.graph import (
    AS_NUMBERS,
    Graph,
    Inputs,
    Phase,
    Products,
    length_of,
    phase_at,
)
from vkbench_shaders.models.hyper import Hyper
from vkbench_shaders.models.recurrent.memory import StateSlots, Turn
from vkbench_shaders.models.shifting import shift_arrays, shift_graph_of
from vkbench_shaders.models.wiring import graph_of
from vkbench_worker.closing import Closing
from vkbench_worker.models.schedule import Pass, Schedule, schedule
from vkbench_worker.models.weights import Progress, Weights
from vkbench_worker.phases import phase
from vkbench_worker.runner.bounds import checks_bounds
from vkbench_worker.runtime.device import Barrier, Buffer, Device, Dispatch, Recording, Stamp, Step
from vkbench_worker.runtime.errors import OutOfMemory
from vkbench_worker.runtime.program import region_bytes

Ids = NDArray[np.integer]
Wire = Callable[[GgufFile, Hyper, Phase], Graph]
_SHIFTS: Final = -1  # the number of phases that shift caches


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a model runs."""

    context: int  # positions of its caches
    batch: int = 1
    cache: str = "f16"
    products: Products = AS_NUMBERS


class Prepared:
    """A phase with its buffers and its recording."""

    def __init__(self, model: Model, graph: Graph, scheduled: Schedule) -> None:
        self.graph, self.schedule = graph, scheduled
        self.turn = Turn()  # where states of the next run lie
        self._model, self.device = model, model.device
        self._stack = model.stack
        self.inputs = {name: self._make_buffer(graph.sizes[name]) for name in graph.inputs}
        places, slots = scheduled.slots()
        self.scratch_bytes = sum(slots)
        self._check_room(slots)
        self.slots = [self._make_buffer(size) for size in slots]
        self.counters = {name: self._make_buffer(n * 4) for name, n in scheduled.counters.items()}
        for name, buffer in self.counters.items():
            buffer.upload(np.zeros(scheduled.counters[name], np.uint32))
        self._values = {
            **model.weights.buffers,
            **{name: model.cache(name, graph.sizes[name]) for name in graph.caches},
            **{name: model.table(name, words) for name, words in scheduled.tables.items()},
            **self.inputs,
            **{name: self.slots[at] for name, at in places.items()},
            **self.counters,
        }
        with phase("pipelines"):
            for level in scheduled.levels:
                for launch in level:
                    self.device.make_ahead(launch.program)

    @cached_property
    def recording(self) -> Recording:
        """The phase between two stamps."""
        return self._model.record_steps([Stamp(), *self.steps(), Stamp()])

    def stamped_steps(self) -> list[Step]:
        """All launches, with a stamp behind each level."""
        steps: list[Step] = []
        for level in self.schedule.levels:
            steps += [*self._dispatches(level), Barrier(launches_only=True), Stamp()]
        return steps

    def steps(self) -> list[Step]:
        """All launches, and the barriers between levels."""
        steps: list[Step] = []
        for level in self.schedule.levels:
            steps += [*self._dispatches(level), Barrier(launches_only=True)]
        return [*steps[:-1], Barrier()]

    def place(self, tokens: Ids, start: int) -> None:
        """Have the next run read these tokens (batch, tokens) at this position."""
        if self.graph.states:
            self.turn = self._model.state_slots.choose_slots(start, start + tokens.shape[1])
        given = Inputs(tokens=tokens, start=start, turn=self.turn)
        for name, array in given.arrays(self.graph, self._model.hyper.window).items():
            self.inputs[name].upload(array)

    def run(self, tokens: Ids, start: int) -> Array:
        """The logits of the tokens that are wanted, or embeddings."""
        self.place(tokens, start)
        self.recording.enqueue()
        return self.read(self._model.hyper.architecture.makes)

    def read(self, name: str) -> Array:
        """A kept value as flat numbers; the caller knows its rows and columns."""
        count = self.graph.sizes[name] // 4
        image = self.device.images([self._values[name]])[0]
        return image.data.view(np.float32)[:count]

    def poison(self, word: int) -> None:
        """Fill all that a run writes, but for caches."""
        for buffer in self.slots:
            buffer.fill(word)

    def buffer(self, name: str) -> Buffer:
        """Where a value lies."""
        return self._values[name]

    def buffers(self) -> dict[str, Buffer]:
        """All buffers that it may touch, each under the name of one of its values."""
        return dict({id(buffer): (name, buffer) for name, buffer in self._values.items()}.values())

    def _dispatches(self, level: Sequence[Pass]) -> list[Step]:
        return [
            Dispatch(
                self.device.pipeline(launch.program),
                [self._values[name] for name in launch.values],
                launch.launch.groups,
                launch.launch.push,
            )
            for launch in level
        ]

    def _check_room(self, slots: Sequence[int]) -> None:
        needed, left = sum(map(region_bytes, slots)), self.device.memory_left()
        if needed > left:
            raise OutOfMemory(
                f"the phase needs {needed:,} bytes of device memory; {left:,} are left"
            )

    def _make_buffer(self, size: int) -> Buffer:
        buffer = self.device.buffer(size)
        self._stack.callback(buffer.close)
        return buffer


class Model(Closing):
    """A file's model on a device, with caches for one batch of sequences."""

    def __init__(
        self,
        device: Device,
        bundle: Bundle,
        file: GgufFile,
        hyper: Hyper,
        options: Options,
        progress: Progress = lambda done, total: None,
        beside: Sequence[Bundle] = (),
    ) -> None:
        """`beside`: bundles that are timed in turns with this one, so both check bounds alike."""
        self._checked = checks_bounds(bundle, *beside)
        self.device, self.bundle, self.file, self.hyper = device, bundle, file, hyper
        self.options = replace(options, context=length_of(options.context))
        self.stack = ExitStack()
        self.stack.enter_context(device.held_pipelines())
        self.weights = Weights(device, file, self.stack)
        self._progress = progress
        self.state_slots = StateSlots()
        self._caches: dict[str, Buffer] = {}
        self._tables: dict[str, Buffer] = {}
        self._phases: dict[tuple[Phase, int], Prepared] = {}

    def close(self) -> None:
        """Free the weights, caches and phases."""
        self.stack.close()

    def by(self, bundle: Bundle) -> Model:
        """The same model by another bundle's kernels, on the same weights and caches."""
        other = copy(self)
        other.bundle, other._phases = bundle, {}
        return other

    def prepare_reading(
        self,
        tokens: int,
        until: int,
        wanted: int = 0,
        kept: tuple[int, ...] = (),
        number: int = 0,
    ) -> Prepared:
        """The phase that reads so many tokens of each sequence, the last one before `until`.

        Phases of other numbers have inputs and scratch of their own, to run in one recording.
        """
        options = self.options
        reading = phase_at(
            tokens,
            until,
            batch=options.batch,
            context=options.context,
            cache=options.cache,
            products=options.products,
        )
        return self._prepare_phase(replace(reading, wanted=wanted, kept=kept), number, graph_of)

    def _prepare_phase(self, reading: Phase, number: int, wire: Wire) -> Prepared:
        key = reading, number
        if key not in self._phases:
            graph = wire(self.file, self.hyper, reading)
            scheduled = schedule(graph, self.bundle, self.device.facts, checked=self._checked)
            with phase("weights"):
                self.weights.load(graph.weights, self._progress)
            self._phases[key] = Prepared(self, graph, scheduled)
        return self._phases[key]

    def logits(self, tokens: Ids, start: int = 0) -> Array:
        """Logits of tokens of one sequence, read from a position on: (tokens, vocabulary)."""
        parts = []
        for at, until in parts_of(len(tokens)):
            run = self.prepare_reading(until - at, start + until)
            parts.append(run.run(tokens[None, at:until], start + at).reshape(until - at, -1))
        return np.concatenate(parts)

    def shift(self, dropped: int, until: int) -> None:
        """Have the caches forget their first positions: those up to `until` move to the front."""
        options = self.options
        shifting = phase_at(
            until - dropped,
            until,
            batch=options.batch,
            context=options.context,
            cache=options.cache,
            products=AS_NUMBERS,
        )
        run = self._prepare_phase(shifting, _SHIFTS, shift_graph_of)
        given = shift_arrays(shifting, dropped)
        for name, buffer in run.inputs.items():
            buffer.upload(given[name])
        run.recording.run()

    def cache(self, name: str, size: int) -> Buffer:
        """Keys, values or states of a layer.

        Zeros at first: hidden positions have to be finite, and a state of zeros stands for no
        tokens.
        """
        if name not in self._caches:
            self._caches[name] = self._make_buffer(size)
            self._caches[name].fill(0)
        return self._caches[name]

    def record_steps(self, steps: Sequence[Step]) -> Recording:
        """A recording that closes with the model."""
        recording = self.device.record(steps)
        self.stack.callback(recording.close)
        return recording

    def made_caches(self) -> Mapping[str, Buffer]:
        """The caches that were made so far."""
        return self._caches

    @property
    def memory_bytes(self) -> int:
        """Bytes that the model has taken on the device; none are freed before it closes."""
        made = [*self.weights.buffers.values(), *self._caches.values(), *self._tables.values()]
        for run in self._phases.values():
            made += [*run.inputs.values(), *run.slots, *run.counters.values()]
        return sum(region_bytes(buffer.size) for buffer in made)

    def table(self, name: str, words: Array) -> Buffer:
        """A lookup table of a format."""
        if name not in self._tables:
            self._tables[name] = self._make_buffer(words.nbytes)
            self._tables[name].upload(words)
        return self._tables[name]

    def _make_buffer(self, size: int) -> Buffer:
        buffer = self.device.buffer(size)
        self.stack.callback(buffer.close)
        return buffer
