"""An open Vulkan device: makes buffers, pipelines and recordings, and runs them one at a time."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self

from vkbench.device import DeviceFacts
from vkbench.selector import best, one
from vkbench.settings import Settings
from vkbench_worker.runtime import packing, vk
from vkbench_worker.runtime.buffer import Buffer
from vkbench_worker.runtime.errors import Unresponsive
from vkbench_worker.runtime.instance import Instance
from vkbench_worker.runtime.memory import Memory
from vkbench_worker.runtime.physical import Physical, candidates
from vkbench_worker.runtime.pipeline import Pipeline
from vkbench_worker.runtime.pipeline_cache import PipelineCache
from vkbench_worker.runtime.pipelines import Pipelines
from vkbench_worker.runtime.program import Image, Program
from vkbench_worker.runtime.recording import Recording, VulkanStep
from vkbench_worker.runtime.transfers import Transfers

_COMPUTE_QUEUE: Final = 0x2
_TIMEOUT: Final = 2
_MOST_THREADS: Final = 12  # that make pipelines ahead


class Device:
    """One device of this host, open for computing; a context manager."""

    @classmethod
    def open(
        cls,
        selector: str,
        settings: Settings,
        prelude: Callable[[DeviceFacts], None] = lambda facts: None,
    ) -> Self:
        """The one device that a selector means (vkbench.selector); "" is the fastest kind.

        `prelude` is called when it is known and not yet created: to take a lock, for instance.
        """
        instance = Instance(settings)
        try:
            found = candidates(instance, settings.host)
            facts = [candidate.facts for candidate in found]
            chosen = one(selector, facts, settings.host) if selector else best(facts)
            prelude(chosen)
            physical = next(c.physical for c in found if c.facts.key == chosen.key)
            return cls(instance, physical, chosen, settings)
        except BaseException:
            instance.close()
            raise

    def __init__(
        self, instance: Instance, physical: Physical, facts: DeviceFacts, settings: Settings
    ) -> None:
        self.instance = instance
        self.physical = physical
        self.facts = facts
        self.environment = physical.environment()
        self.live: Counter[str] = Counter()  # open handles of each kind
        self._hangs = False
        self.patience_seconds = 600.0  # longest wait for one submission
        self._counting = threading.Lock()
        self._pipelines = Pipelines(self._make_pipeline, _threads(facts, settings))
        family = self._queue_family()
        self.handle = self._create(family)
        self._queue = vk.ffi.new("VkQueue *")
        vk.lib.vkGetDeviceQueue(self.handle, family, 0, self._queue)
        self._pool = self.create(
            "CommandPool", vk.struct("VkCommandPoolCreateInfo", flags=2, queueFamilyIndex=family)
        )
        self._fence = vk.ffi.new(
            "VkFence[]", [self.create("Fence", vk.struct("VkFenceCreateInfo"))]
        )
        self.memory = Memory(self)
        self.transfers = Transfers(self)
        self.cache = PipelineCache(self, settings.cache / "pipelines")
        # of every pipeline, beside the program's own
        self.constants: tuple[tuple[int, int], ...] = ()
        self.constants = ((packing.CONSTANT, int(packing.rounds_to_nearest(self))),)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Save the pipeline cache and free everything; closing twice is fine."""
        if self.handle is None or self._hangs:  # to wait for a hung device would hang as well
            return
        self._pipelines.quiet()
        vk.lib.vkDeviceWaitIdle(self.handle)
        self.cache.save()
        self._pipelines.close()
        self.cache.close()
        self.transfers.close()
        self.memory.close()
        self.destroy("Fence", self._fence[0])
        self.destroy("CommandPool", self._pool)
        vk.lib.vkDestroyDevice(self.handle, vk.ffi.NULL)
        self.handle = None
        self.instance.close()

    @property
    def clock(self) -> str:
        """Which clock times recordings: gpu or host."""
        return "gpu" if self.tick_mask else "host"

    @property
    def pci_address(self) -> str:
        """Where it sits on the bus, as sysfs writes it, or ""."""
        return self.physical.pci_address

    @property
    def hardware(self) -> str:
        """What other devices of this host may be too, under another driver; "" if nobody knows."""
        return "cpu" if self.facts.type == "cpu" else self.pci_address

    def memory_left(self) -> int:
        """Bytes of device memory that may still be allocated."""
        return self.memory.left_bytes

    def buffer(self, size: int) -> Buffer:
        """A new buffer of `size` bytes."""
        return Buffer(self, size)

    def pipeline(self, program: Program) -> Pipeline:
        """The pipeline of a program; the device keeps and closes it."""
        return self._pipelines.get(program)

    @property
    def makes_ahead(self) -> bool:
        """Whether it is worth telling which pipelines will be asked for."""
        return self._pipelines.makes_ahead

    def make_ahead(self, program: Program) -> None:
        """Begin to make a pipeline that will be asked for soon; errors wait until then."""
        self._pipelines.make_ahead(program)

    def quiet(self) -> None:
        """Have nothing made ahead any more, until more is asked for."""
        self._pipelines.quiet()

    def record(self, steps: Sequence[VulkanStep]) -> Recording:
        """Steps ready to be run."""
        return Recording(self, steps)

    def images(self, whole: Sequence[Buffer], guards: Sequence[Buffer] = ()) -> list[Image]:
        """What buffers hold now, guard bands included; of the second ones only the guard bands."""
        buffers = [(buffer, True) for buffer in whole] + [(buffer, False) for buffer in guards]
        spans = [span for buffer, data in buffers for span in buffer.spans(data=data)]
        parts = iter(self.transfers.read(spans))
        return [
            Image(next(parts), next(parts), next(parts), poison=buffer.poison)
            for buffer, _ in buffers
        ]

    def flush(self, *commands: Any) -> None:
        """Submit the waiting transfers, then these command buffers, and wait for all of them."""
        waiting = self.transfers.take()
        buffers = [*([waiting] if waiting is not None else []), *commands]
        if buffers:
            self._submit(buffers)
        self.transfers.done()

    def save_cache(self) -> None:
        """Keep the pipelines made so far for later processes."""
        self.cache.save()

    def raise_messages(self) -> None:
        """Raise what the validation layer had to say since the last call."""
        self.instance.raise_messages()

    def create(self, kind: str, info: Any) -> Any:
        """A new Vulkan object by its create-info."""
        handle = vk.ffi.new(f"Vk{kind} *")
        call = f"vkCreate{kind}"
        vk.check(getattr(vk.lib, call)(self.handle, info, vk.ffi.NULL, handle), call)
        self.count(kind, 1)
        return handle[0]

    def destroy(self, kind: str, handle: Any) -> None:
        """The end of an object of `create`."""
        getattr(vk.lib, f"vkDestroy{kind}")(self.handle, handle, vk.ffi.NULL)
        self.count(kind, -1)

    def count(self, kind: str, change: int) -> None:
        """Note that there are more or fewer of a kind of handles; from any thread."""
        with self._counting:
            self.live[kind] += change

    def command_buffer(self) -> Any:
        """A new command buffer; the pool takes along those that nobody frees."""
        info = vk.struct(
            "VkCommandBufferAllocateInfo", commandPool=self._pool, commandBufferCount=1
        )
        handle = vk.ffi.new("VkCommandBuffer *")
        vk.check(
            vk.lib.vkAllocateCommandBuffers(self.handle, info, handle), "vkAllocateCommandBuffers"
        )
        self.live["CommandBuffer"] += 1
        return handle[0]

    def free_command_buffer(self, commands: Any) -> None:
        vk.lib.vkFreeCommandBuffers(
            self.handle, self._pool, 1, vk.ffi.new("VkCommandBuffer[]", [commands])
        )
        self.live["CommandBuffer"] -= 1

    def _make_pipeline(self, program: Program) -> Pipeline:
        return Pipeline(self, program)

    def _queue_family(self) -> int:
        """A family that computes, best one with timestamps; also sets what a tick is."""
        families = self._families()
        computing = [i for i, family in enumerate(families) if family.queueFlags & _COMPUTE_QUEUE]
        best = max(computing, key=lambda i: (families[i].timestampValidBits > 0, -i))
        self.tick_mask = (1 << families[best].timestampValidBits) - 1
        self.tick_seconds = float(self.physical.core.limits.timestampPeriod) * 1e-9
        return best

    def _families(self) -> Any:
        count = vk.ffi.new("uint32_t *")
        vk.lib.vkGetPhysicalDeviceQueueFamilyProperties(self.physical.handle, count, vk.ffi.NULL)
        families = vk.ffi.new("VkQueueFamilyProperties[]", count[0])
        vk.lib.vkGetPhysicalDeviceQueueFamilyProperties(self.physical.handle, count, families)
        return families

    def _create(self, family: int) -> Any:
        priorities = vk.ffi.new("float[]", [1.0])
        queue = vk.struct(
            "VkDeviceQueueCreateInfo",
            queueFamilyIndex=family,
            queueCount=1,
            pQueuePriorities=priorities,
        )
        names = [vk.ffi.new("char[]", name.encode()) for name in self.physical.features.extensions]
        extensions = vk.ffi.new("char *[]", names)
        info = vk.struct(
            "VkDeviceCreateInfo",
            next=self.physical.features.head,
            queueCreateInfoCount=1,
            pQueueCreateInfos=queue,
            enabledExtensionCount=len(names),
            ppEnabledExtensionNames=extensions,
        )
        handle = vk.ffi.new("VkDevice *")
        vk.check(
            vk.lib.vkCreateDevice(self.physical.handle, info, vk.ffi.NULL, handle), "vkCreateDevice"
        )
        return handle[0]

    def _submit(self, buffers: list[Any]) -> None:
        commands = vk.ffi.new("VkCommandBuffer[]", buffers)
        info = vk.struct("VkSubmitInfo", commandBufferCount=len(buffers), pCommandBuffers=commands)
        vk.check(vk.lib.vkQueueSubmit(self._queue[0], 1, info, self._fence[0]), "vkQueueSubmit")
        patience = int(self.patience_seconds * 1e9)
        result = vk.lib.vkWaitForFences(self.handle, 1, self._fence, 1, patience)
        if result == _TIMEOUT:
            self._hangs = True
            raise Unresponsive(f"the device did not finish within {self.patience_seconds:g} s")
        vk.check(result, "vkWaitForFences")
        vk.check(vk.lib.vkResetFences(self.handle, 1, self._fence), "vkResetFences")


def _threads(facts: DeviceFacts, settings: Settings) -> int:
    """How many threads make pipelines ahead.

    CPU drivers compile when a pipeline is first launched. What the validation layer says of a
    pipeline has to be said to its own job.
    """
    if facts.type == "cpu" or settings.validation:
        return 0
    return min(_MOST_THREADS, len(os.sched_getaffinity(0)) - 1)


def devices(settings: Settings) -> list[DeviceFacts]:
    """Every device of this host."""
    with Instance(settings) as instance:
        return [candidate.facts for candidate in candidates(instance, settings.host)]
