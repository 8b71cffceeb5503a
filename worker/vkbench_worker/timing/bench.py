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
from vkbench_worker.runtime.program import SCRATCH_POISON, Image
from vkbench_worker.timing.measure import LaunchWork, Passes

_LOOKUP: Final = "lookup table"  # no binding has such a name, nor such a one as "scratch 0"
_OTHER: Final = " of the other arm"  # ends the names of a second code path's own buffers


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
        self.storages = storages
        self._device = device
        self._in_place = {
            b.name: storages[b.name] for b in self.problem.kernel.bindings if b.access == "inout"
        }
        passes = _make_passes(device, plan)
        with phase("buffers"):
            self._by_name = self._make_by_name(storages, stack, shared or {})
            self._lookups = self._make_lookup(plan, stack)
            self._memory = _sizes_of(plan)
            self._own = self._make_own(plan, stack, "")
            self._set_up(passes, stack)

    def _make_by_name(
        self, storages: Arrays, stack: ExitStack, shared: Mapping[str, Buffer]
    ) -> dict[str, Buffer]:
        return {
            b.name: shared.get(b.name) or self._buffer(b.name, storages, stack)
            for b in self.problem.kernel.bindings
        }

    def _make_lookup(self, plan: LaunchPlan, stack: ExitStack) -> list[str]:
        """Make the buffer of the formats' table, if there is one, and return its name."""
        if plan.table is None:
            return []
        self._by_name[_LOOKUP] = self._make_buffer(plan.table.nbytes, stack)
        self._by_name[_LOOKUP].upload(plan.table)
        return [_LOOKUP]

    def _make_own(self, plan: LaunchPlan, stack: ExitStack, whose: str) -> list[str]:
        """Make the scratch and the counters of a code path, and return their names in order."""
        names = []
        for number, size in enumerate(plan.scratch):
            called = plan.names[number] if plan.names else number
            names.append(f"scratch {called}{whose}")
            self._by_name[names[-1]] = self._make_buffer(size, stack)
        if plan.counters:
            names.append(f"{COUNTERS}{whose}")
            self._in_place[names[-1]] = np.zeros(plan.counters, np.uint32)
            self._by_name[names[-1]] = self._make_buffer(plan.counters * 4, stack)
            self._by_name[names[-1]].upload(self._in_place[names[-1]])
        return names

    def other(self, plan: LaunchPlan, stack: ExitStack) -> Bench:
        """The same problem by the same code path of another bundle, on the same buffers.

        Scratch of other sizes is its own, beside that of the first: sets of buffers have both.
        """
        bench = copy(self)
        passes = _make_passes(self._device, plan)
        if _sizes_of(plan) != self._memory:
            bench._memory = _sizes_of(plan)
            bench._own = bench._make_own(plan, stack, _OTHER)
        bench._set_up(passes, stack)
        return bench

    def _set_up(self, passes: Passes, stack: ExitStack) -> None:
        """Record a launch of a code path, on the buffers that it binds."""
        places = {name: place for place, name in enumerate(self._by_name)}
        arrays = [binding.name for binding in self.problem.kernel.bindings]
        self.work = LaunchWork(
            passes=passes,
            bytes_moved=self.problem.bytes_moved,
            flops=self.problem.flops,
            places=[places[name] for name in (*arrays, *self._own, *self._lookups)],
        )
        self._record(stack)

    @property
    def buffers(self) -> list[Buffer]:
        """The buffers: the arrays in order, and those that code paths have beside them."""
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
        changed = [name for name in self._in_place if not _are_counters(name)]
        return {places[name]: self._in_place[name] for name in changed}

    def fills(self, poison: int) -> list[int | None]:
        """What fills each buffer before a launch, by the poison of outputs.

        None where it holds what a launch reads.
        """
        held = (*(b.name for b in self.problem.kernel.bindings if b.is_input), _LOOKUP)
        fills = {
            name: poison if name in self.outputs else SCRATCH_POISON[poison]
            for name in self._by_name
            if name not in held and not _are_counters(name)
        }
        return [fills.get(name) for name in self._by_name]

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
        """Poison the outputs and the scratch of a set of buffers, and restore its inputs."""
        for buffer, fill in zip(buffers, self.fills(poison), strict=True):
            if fill is not None:
                buffer.fill(fill)
        self.restore(buffers)

    def restore(self, buffers: Sequence[Buffer]) -> None:
        """Upload anew what a launch changes in place, in a set of buffers like this problem's."""
        for name, buffer in zip(self._by_name, buffers, strict=True):
            if name in self._in_place:
                buffer.upload(self._in_place[name])

    def images(self, buffers: Sequence[Buffer]) -> Mapping[str, Image]:
        """Outputs and counters of a set of buffers like this problem's, and all guard bands."""
        named = dict(zip(self._by_name, buffers, strict=True))
        whole = [name for name in named if name in self.outputs or _are_counters(name)]
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


def _are_counters(name: str) -> bool:
    return name.startswith(COUNTERS)


def _sizes_of(plan: LaunchPlan) -> tuple[int, ...]:
    """How large the buffers are that a code path has beside the arrays."""
    return (*plan.scratch, 0, plan.counters)


def _make_passes(device: Device, plan: LaunchPlan) -> Passes:
    with phase("pipelines"):
        return [(device.pipeline(program), launch) for program, launch in plan.passes]
