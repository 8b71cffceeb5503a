"""How fast a GPU's clock runs just now: seconds of a kernel of a fixed number of cycles.

Only of NVIDIA's GPUs: their memory's clock stays up with the other one. Those of other vendors
count as fallen between any two timings.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Final

from vkbench.device import NVIDIA, DeviceFacts
from vkbench.errors import VkbenchError
from vkbench_shaders.bundle import GAUGE, packaged
from vkbench_worker.runtime.device import Barrier, Device, Dispatch, Stamp, Step
from vkbench_worker.runtime.program import Program

_BYTES: Final = 4 * 32  # of gauge.slang's threads
_LAUNCHES: Final = 3  # the fastest one counts: a GPU that slept begins late


def keeps_memory_clock(facts: DeviceFacts) -> bool:
    """Whether the clock of a GPU's memory stays up with the one that a gauge measures."""
    return facts.vendor_id == NVIDIA


def of(device: Device) -> Callable[[], float] | None:
    """What measures a device's clock; None where that cannot be told."""
    if not keeps_memory_clock(device.facts) or device.clock != "gpu":
        return None
    try:
        code, sha = packaged().code(GAUGE.key), packaged().entry(GAUGE.key).sha256
    except VkbenchError:  # kernels that are not built, or of an older package
        return None
    program = Program(code=code, sha=sha, bindings=(0,), push_bytes=0, constants=())
    return lambda: seconds(device, program)


def seconds(device: Device, program: Program) -> float:
    """What one launch of the gauge takes."""
    with closing(device.buffer(_BYTES)) as buffer:
        buffer.fill(1)
        launch = Dispatch(device.pipeline(program), [buffer], (1, 1, 1), b"")
        steps: list[Step] = [Stamp()]
        for _ in range(_LAUNCHES):
            steps += [launch, Barrier(), Stamp()]
        with closing(device.record(steps)) as recording:
            return min(recording.run())
