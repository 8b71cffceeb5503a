"""What a driver made of a program: the size of its code, and the statistics that the driver names.

Statistics need a feature that may have a driver keep more of each pipeline. So they are asked of a
device of their own, and of pipelines that nothing else uses; timed ones are made without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from math import isfinite
from typing import Any, Final

from vkbench.device import DeviceFacts
from vkbench.result import Statistic
from vkbench_worker.runtime import vk
from vkbench_worker.runtime.discovery.features import STATISTICS
from vkbench_worker.runtime.discovery.physical import Physical
from vkbench_worker.runtime.errors import OutOfMemory, Unsupported, VulkanFailure
from vkbench_worker.runtime.program import Program
from vkbench_worker.runtime.vulkan.logical import Logical
from vkbench_worker.runtime.vulkan.pipeline import VulkanPipeline
from vkbench_worker.runtime.vulkan.pipeline_cache import ScratchCache

BINARY: Final = "binary"
DRIVERS_OWN: Final = "pipeline statistics"  # stands for all of them where there are none
_FORMATS: Final = ("b32", "i64", "u64", "f64")  # members of the value, in the order of Vulkan

_HASH: Final = "hash"  # of the code or of the driver, in RADV's words: no amount of anything

Constants = Sequence[tuple[int, int]]


def measure_binaries(
    logical: Logical, programs: Sequence[Program], constants: Constants
) -> list[Statistic]:
    """How much the pipeline of each program adds to an empty cache."""
    names = _Names(programs)
    return [
        Statistic(name=names.name(place, BINARY), **_measure_binary(logical, program, constants))
        for place, program in enumerate(programs)
    ]


def _measure_binary(logical: Logical, program: Program, constants: Constants) -> dict[str, Any]:
    with closing(ScratchCache(logical)) as cache:
        empty = cache.count_bytes()
        with closing(VulkanPipeline(logical, cache, program, constants)):
            size = cache.count_bytes() - empty
    if size > 0:
        return {"value": float(size), "unit": "bytes"}
    return {"value": None, "note": "the driver keeps no code in a cache of pipelines"}


def ask_driver(
    physical: Physical, facts: DeviceFacts, programs: Sequence[Program], constants: Constants
) -> list[Statistic]:
    """The driver's statistics of the pipelines of programs, by a device that is made for them.

    Its `physical` is asked once, and for nothing else: it makes devices of another kind afterwards.
    """
    if not physical.features.capture_statistics():
        note = f"the driver lacks {STATISTICS.extension}"
        return [Statistic(name=DRIVERS_OWN, value=None, note=note)]
    try:
        with closing(Logical(physical, facts)) as logical:
            names = _Names(programs)
            statistics = [
                Statistic(name=names.name(place, *words), value=value)
                for place, program in enumerate(programs)
                for words, value in _ask_pipeline(logical, program, constants)
            ]
    except (OutOfMemory, Unsupported, VulkanFailure) as error:
        return [Statistic(name=DRIVERS_OWN, value=None, note=str(error))]
    return statistics or [Statistic(name=DRIVERS_OWN, value=None, note="the driver names none")]


def _ask_pipeline(
    logical: Logical, program: Program, constants: Constants
) -> Iterator[tuple[tuple[str, ...], float]]:
    """The words of each statistic, and its value; several executables are told apart."""
    instance, device = logical.physical.instance, logical.handle
    ask = {
        kind: instance.function(f"vkGetPipelineExecutable{kind}KHR")
        for kind in ("Properties", "Statistics")
    }
    with (
        closing(ScratchCache(logical)) as cache,
        closing(VulkanPipeline(logical, cache, program, constants, captures=True)) as pipeline,
    ):
        info = vk.struct("VkPipelineInfoKHR", pipeline=pipeline.handle)
        parts = _enumerate(ask["Properties"], device, info, "VkPipelineExecutablePropertiesKHR")
        for index, part in enumerate(parts):
            which = vk.struct(
                "VkPipelineExecutableInfoKHR", pipeline=pipeline.handle, executableIndex=index
            )
            records = _enumerate(
                ask["Statistics"], device, which, "VkPipelineExecutableStatisticKHR"
            )
            for one in records:
                words = (vk.text(part.name),) if len(parts) > 1 else ()
                value = float(getattr(one.value, _FORMATS[one.format]))
                name = vk.text(one.name)
                if isfinite(value) and not name.lower().endswith(_HASH):
                    yield (*words, name), value


def _enumerate(function: Callable[..., int], device: Any, info: Any, kind: str) -> Any:
    count = vk.ffi.new("uint32_t *")
    vk.check(function(device, info, count, vk.ffi.NULL), kind)
    records = vk.ffi.new(f"{kind}[]", count[0])
    for record in records:
        record.sType = vk.STRUCTURE_TYPES[kind]
    vk.check(function(device, info, count, records), kind)
    return records


class _Names:
    """Names of statistics, no two alike: with the number of the program where there are several."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self._are_numbered = len(programs) > 1
        self._given: Counter[str] = Counter()

    def name(self, place: int, *words: str) -> str:
        """The name of a statistic of the program at a place."""
        text = ", ".join(words)
        text = f"{place + 1}: {text}" if self._are_numbered else text
        self._given[text] += 1
        return text if self._given[text] == 1 else f"{text} ({self._given[text]})"
