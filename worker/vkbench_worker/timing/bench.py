"""One problem set up on a device: its buffers, its pipeline, and a launch that can be repeated.

What a kernel changes in place holds its input again before every run. Timed launches go on over
what the launch before them left where the kernel is declared to leave its own output as it is;
others find their input again each time (`restoring.py`).
Counters are zero before the first launch, and every launch has to leave them so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from typing import Final

import numpy as np

from vkbench_shaders.kernel import Array, Arrays
from vkbench_worker.judging.judge import COUNTERS, Images
from vkbench_worker.phases import phase
from vkbench_worker.runner.variants import LaunchPlan
from vkbench_worker.runtime.device import Buffer, Device, Recording, Stamp
from vkbench_worker.runtime.program import Image
from vkbench_worker.timing.measure import LaunchWork

_LOOKUP: Final = "lookup table"  # no binding has such a name, nor such a one as "scratch 0"


class Bench:
    """Buffers with their inputs uploaded, and the work on them; all of it closes with the stack."""

    seconds: float  # of one launch, roughly: the least of those run so far
    _recording: Recording

    def __init__(
        self,
        device: Device,
        plan: LaunchPlan,
        storages: Arrays,
        stack: ExitStack,
        shared: Mapping[str, Buffer] | None = None,
    ) -> None:
        """Set it up; `shared` are buffers of bindings that another bench made and fills."""
        self.problem = plan.problem
        self.outputs = [b.name for b in self.problem.kernel.bindings if b.is_output]
        self.work = _work(device, plan)
        self.storages = storages
        self._device = device
        self._in_place = {
            b.name: storages[b.name] for b in self.problem.kernel.bindings if b.access == "inout"
        }
        if plan.counters:
            self._in_place[COUNTERS] = np.zeros(plan.counters, np.uint32)
        with phase("buffers"):
            self._by_name = self._made_by_name(plan, storages, stack, shared or {})
            self._record(stack)

    def _made_by_name(
        self, plan: LaunchPlan, storages: Arrays, stack: ExitStack, shared: Mapping[str, Buffer]
    ) -> dict[str, Buffer]:
        by_name = {
            b.name: shared.get(b.name) or self._buffer(b.name, storages, stack)
            for b in self.problem.kernel.bindings
        }
        for number, size in enumerate(plan.scratch):
            by_name[f"scratch {number}"] = self._make_buffer(size, stack)
        if plan.counters:
            by_name[COUNTERS] = self._make_buffer(plan.counters * 4, stack)
            by_name[COUNTERS].upload(self._in_place[COUNTERS])
        if plan.table is not None:
            by_name[_LOOKUP] = self._make_buffer(plan.table.nbytes, stack)
            by_name[_LOOKUP].upload(plan.table)
        return by_name

    def other(self, plan: LaunchPlan, stack: ExitStack) -> Bench:
        """The same problem by the same code path of another bundle, on the same buffers."""
        bench = copy(self)
        bench.work = _work(self._device, plan)
        bench._record(stack)
        return bench

    @property
    def buffers(self) -> list[Buffer]:
        """The buffers in the order of their binding numbers."""
        return list(self._by_name.values())

    def buffer(self, name: str) -> Buffer:
        """The buffer of a binding."""
        return self._by_name[name]

    @property
    def restored(self) -> Mapping[int, Array]:
        """By place among the buffers, the inputs that each timed launch has to find again."""
        if self.problem.kernel.work.idempotent:
            return {}
        places = {name: place for place, name in enumerate(self._by_name)}
        changed = [name for name in self._in_place if name != COUNTERS]
        return {places[name]: self._in_place[name] for name in changed}

    @property
    def is_poisoned(self) -> list[bool]:
        """Which of the buffers hold nothing that a launch reads."""
        read = [b.name for b in self.problem.kernel.bindings if b.is_input]
        return [name not in (*read, _LOOKUP, COUNTERS) for name in self._by_name]

    def run(self, poison: int) -> Images:
        """One launch over outputs that hold poison, and what it left."""
        self.reset(poison)
        self._recording.enqueue()
        images = self.images(self.buffers)
        self.seconds = min(self.seconds, *self._recording.seconds())
        return images

    def reset(self, poison: int) -> None:
        """Overwrite the outputs and the guards around them; undo what was changed in place."""
        self.renew(self.buffers, poison)

    def renew(self, buffers: Sequence[Buffer], poison: int) -> None:
        """Poison the outputs of a set of buffers, and restore its inputs."""
        for buffer, poisoned in zip(buffers, self.is_poisoned, strict=True):
            if poisoned:
                buffer.fill(poison)
        self.restore(buffers)

    def restore(self, buffers: Sequence[Buffer]) -> None:
        """Upload anew what a launch changes in place, in a set of buffers like this problem's."""
        for name, buffer in zip(self._by_name, buffers, strict=True):
            if name in self._in_place:
                buffer.upload(self._in_place[name])

    def images(self, buffers: Sequence[Buffer]) -> Mapping[str, Image]:
        """Outputs and counters of a set of buffers like this problem's, and all guard bands."""
        named = dict(zip(self._by_name, buffers, strict=True))
        whole = [name for name in named if name in (*self.outputs, COUNTERS)]
        others = [name for name in named if name not in whole]
        images = self._device.images(
            [named[name] for name in whole], [named[name] for name in others]
        )
        return dict(zip([*whole, *others], images, strict=True))

    def array(self, images: Images, output: str) -> Array:
        """An output's elements, shaped."""
        storage = images[output].data.view(self.problem.format(output).dtype)
        return self.problem.layout(output).view(storage).copy()

    def _record(self, stack: ExitStack) -> None:
        self.seconds = float("inf")
        self._recording = self._device.record([Stamp(), *self.work.launch(self.buffers), Stamp()])
        stack.callback(self._recording.close)

    def _buffer(self, name: str, storages: Arrays, stack: ExitStack) -> Buffer:
        size = self.problem.layout(name).storage * self.problem.item_bytes(name)
        buffer = self._make_buffer(size, stack)
        if name in storages:
            buffer.upload(storages[name])
        return buffer

    def _make_buffer(self, size: int, stack: ExitStack) -> Buffer:
        buffer = self._device.buffer(size)
        stack.callback(buffer.close)
        return buffer


def _work(device: Device, plan: LaunchPlan) -> LaunchWork:
    with phase("pipelines"):
        passes = [(device.pipeline(program), launch) for program, launch in plan.passes]
    problem = plan.problem
    return LaunchWork(passes=passes, bytes_moved=problem.bytes_moved, flops=problem.flops)
