"""The NullDevice: runs a kernel's reference in numpy where a device would run SPIR-V."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from vkbench.device import DeviceFacts, Environment, device_key
from vkbench_shaders.kernel import Problem
from vkbench_worker.closing import Closing
from vkbench_worker.judging.rounding import round_values
from vkbench_worker.runtime.device import (
    Barrier,
    Buffer,
    Copy,
    Dispatch,
    Fill,
    Part,
    Piece,
    Stamp,
    Step,
    as_own,
)
from vkbench_worker.runtime.eager import EagerDevice, EagerRecording
from vkbench_worker.runtime.errors import OutOfMemory, Unsupported
from vkbench_worker.runtime.program import (
    GUARD,
    POISON_A,
    Bytes,
    Image,
    Program,
    pad_size,
    region_bytes,
)

# Buffers of each binding as a shader would see them: the storage, and behind it the guard band.
Shown = Mapping[str, np.ndarray]
Function = Callable[[Problem, Shown], None]

_LIMITS = {
    "max_workgroup_invocations": 1024,
    "max_workgroup_size_x": 1024,
    "max_workgroup_size_y": 1024,
    "max_workgroup_size_z": 64,
    "max_shared_bytes": 49152,
    "max_storage_range": 1 << 30,
    "max_groups_x": 65535,
    "max_groups_y": 65535,
    "max_groups_z": 65535,
    "max_push_bytes": 128,
    "storage_alignment": 16,
}


def run_reference(problem: Problem, shown: Shown) -> None:
    """What a right kernel does: the reference, rounded to the formats of the outputs."""
    inputs: dict[str, np.ndarray] = {}
    outputs: dict[str, np.ndarray] = {}
    for binding in problem.kernel.bindings:
        view = problem.layout(binding.name).view(shown[binding.name])
        if binding.is_input:
            inputs[binding.name] = view
        if binding.is_output:
            outputs[binding.name] = view
    for name, values in problem.kernel.check.reference(problem, inputs, None).items():
        outputs[name][...] = round_values(values, problem.format(name))


class NullBuffer:
    """Host memory between guard bands."""

    def __init__(self, device: NullDevice, size: int) -> None:
        if pad_size(size, 4) > device.facts.limits["max_storage_range"]:
            raise Unsupported(f"needs a storage buffer of {size:,} bytes")
        if region_bytes(size) > device.memory_left():
            raise OutOfMemory(f"needs {size:,} bytes, {device.memory_left():,} are left")
        self.size = size
        self.bytes = np.zeros(region_bytes(size), np.uint8)
        self.poison = POISON_A
        self._device = device
        device.used_bytes += self.bytes.size
        self._closed = False

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._device.used_bytes -= self.bytes.size

    def upload(self, data: np.ndarray) -> None:
        self.fill(POISON_A)
        self.bytes[GUARD : GUARD + self.size] = (
            np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        )

    def fill(self, word: int) -> None:
        self.poison = word
        self.bytes.view(np.uint32)[:] = word

    def copy_from(self, other: Buffer) -> None:
        source = as_own(NullBuffer, other)
        self.poison = source.poison
        self.bytes[:] = source.bytes

    def image(self, *, data: bool) -> Image:
        lead, rest = self.bytes[:GUARD].copy(), self.bytes[GUARD:].copy()
        return Image(lead, rest[: self.size if data else 0], rest[self.size :], poison=self.poison)


class NullRecording(EagerRecording):
    """Steps carried out one after the other by the host."""

    def __init__(self, device: NullDevice, steps: Sequence[Step]) -> None:
        self._device = device
        self._steps = steps

    def _run(self) -> list[float]:
        stamps = []
        for step in self._steps:
            match step:
                case Dispatch():
                    buffers = [as_own(NullBuffer, buffer) for buffer in step.buffers]
                    self._device.dispatch(as_own(Program, step.pipeline), buffers)
                case Fill():
                    as_own(NullBuffer, step.buffer).bytes[:] = 0
                case Copy():
                    source, target = (
                        as_own(NullBuffer, step.source),
                        as_own(NullBuffer, step.target),
                    )
                    shown = slice(GUARD, GUARD + source.size)
                    target.bytes[shown] = source.bytes[shown]
                case Stamp():
                    stamps.append(time.perf_counter())
                case Barrier():
                    pass
        return [after - before for before, after in pairwise(stamps)]


class NullFlight(NullRecording):
    """All uploads, then all steps: the last launch does the work of all parts."""

    def __init__(self, device: NullDevice, parts: Sequence[Part]) -> None:
        steps = [step for part in parts for step in part.steps]
        super().__init__(device, [Stamp(), *steps, Stamp()])
        self._uploads = [piece for part in parts for piece in part.uploads]
        self._reads = [piece for part in parts for piece in part.reads]

    def _run(self) -> list[float]:
        for piece in self._uploads:
            _bytes_of_piece(piece)[:] = piece.data
        return super()._run()

    def bytes_read(self) -> list[Bytes]:
        """What the last run left."""
        return [_bytes_of_piece(piece).copy() for piece in self._reads]


def _bytes_of_piece(piece: Piece) -> Bytes:
    start = GUARD + piece.start
    return as_own(NullBuffer, piece.buffer).bytes[start : start + piece.size]


class NullDevice(EagerDevice, Closing):
    """A device that computes with `function`: the reference, or what a test plants in its place."""

    def __init__(
        self,
        function: Function = run_reference,
        *,
        features: Sequence[str] = ("subgroup_arithmetic",),
        memory_bytes: int = 1 << 30,
        host: str = "null",
    ) -> None:
        super().__init__()
        uuid = "0" * 32
        self.facts = DeviceFacts(
            key=device_key(host, uuid),
            host=host,
            index=0,
            name="NullDevice",
            uuid=uuid,
            vendor_id=0,
            device_id=0,
            type="cpu",
            memory_bytes=memory_bytes,
            subgroup_size=8,
            features=tuple(sorted(features)),
            limits=_LIMITS,
            llc_bytes=1 << 20,
        )
        self.environment = Environment(
            driver="null",
            driver_version="0",
            driver_info="",
            api_version="1.3.0",
            loader="",
            os="",
            os_kernel="",
            cpu="",
            vkbench="",
        )
        self.function = function
        self.clock = "host"
        self.tick_seconds = 1e-9
        self.used_bytes = 0

    def close(self) -> None:
        """Do nothing: this device holds no handles."""

    def memory_left(self) -> int:
        return self.facts.memory_bytes - self.used_bytes

    def buffer(self, size: int) -> NullBuffer:
        return NullBuffer(self, size)

    def pipeline(self, program: Program) -> Program:
        return program

    def record(self, steps: Sequence[Step]) -> NullRecording:
        return NullRecording(self, steps)

    def flight(self, parts: Sequence[Part], depth: int) -> NullFlight:
        return NullFlight(self, parts)

    def images(self, whole: Sequence[Buffer], guards: Sequence[Buffer] = ()) -> list[Image]:
        buffers = [(buffer, True) for buffer in whole] + [(buffer, False) for buffer in guards]
        return [as_own(NullBuffer, buffer).image(data=data) for buffer, data in buffers]

    def dispatch(self, program: Program, buffers: Sequence[NullBuffer]) -> None:
        """Run the function on the buffers of the last launch: it does the work of all of them."""
        problem, shown = program.problem, {}
        if problem is None or not program.is_last:
            return
        for binding, buffer in zip(problem.kernel.bindings, buffers, strict=False):
            kind = problem.format(binding.name).dtype
            visible = GUARD + (pad_size(buffer.size, 4) + GUARD) // kind.itemsize * kind.itemsize
            shown[binding.name] = buffer.bytes[GUARD:visible].view(kind)
        self.function(problem, shown)
