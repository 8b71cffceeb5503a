"""The VkDevice that everything on a device is made with: counted objects and its queues."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from vkbench.device import DeviceFacts
from vkbench_worker.runtime import vk
from vkbench_worker.runtime.discovery.physical import Physical
from vkbench_worker.runtime.errors import Unresponsive
from vkbench_worker.runtime.vulkan.queues import Place, Places, Queue, places


@dataclass(frozen=True, kw_only=True)
class Queues:
    """The device's queues; copies share the one that computes where there is no other."""

    compute: Queue
    upload: Queue
    read_back: Queue


class Logical:
    """Makes and destroys Vulkan objects, and submits command buffers, one submission at a time.

    Memory, transfers, buffers, pipelines and recordings hold this one, never the device above them.
    """

    def __init__(self, physical: Physical, facts: DeviceFacts) -> None:
        self.physical = physical
        self.facts = facts
        self.live: Counter[str] = Counter()  # open handles of each kind
        self.hangs = False  # whether a submission did not end in time: nothing can be waited for
        self.patience_seconds = 600.0  # longest wait for one submission
        self._counting = threading.Lock()
        where = self._places()
        self.families = where.families  # that buffers are used by
        self.handle = self._create(where)
        self._pools = {
            family: self.create(
                "CommandPool",
                vk.struct("VkCommandPoolCreateInfo", flags=2, queueFamilyIndex=family),
            )
            for family in where.families
        }
        self.queues = Queues(
            compute=self._queue(where.compute),
            upload=self._queue(where.upload),
            read_back=self._queue(where.read_back),
        )
        self._fence = vk.ffi.new(
            "VkFence[]", [self.create("Fence", vk.struct("VkFenceCreateInfo"))]
        )

    def close(self) -> None:
        """Destroy the VkDevice; everything made with it is closed before."""
        self.destroy("Fence", self._fence[0])
        for pool in self._pools.values():
            self.destroy("CommandPool", pool)
        vk.lib.vkDestroyDevice(self.handle, vk.ffi.NULL)
        self.handle = None

    @property
    def clock(self) -> str:
        """Which clock times recordings: gpu or host."""
        return "gpu" if self.tick_mask else "host"

    def wait_idle(self) -> None:
        """Wait until the device has nothing left to do."""
        vk.lib.vkDeviceWaitIdle(self.handle)

    def create(self, kind: str, info: Any) -> Any:
        """A new Vulkan object by its create-info."""
        handle = vk.ffi.new(f"Vk{kind} *")
        call = f"vkCreate{kind}"
        vk.check(getattr(vk.lib, call)(self.handle, info, vk.ffi.NULL, handle), call)
        self.count(kind, 1)
        return handle[0]

    def destroy(self, kind: str, handle: Any) -> None:
        """Destroy an object that `create` made."""
        getattr(vk.lib, f"vkDestroy{kind}")(self.handle, handle, vk.ffi.NULL)
        self.count(kind, -1)

    def count(self, kind: str, change: int) -> None:
        """Note that there are more or fewer handles of a kind; any thread may call it."""
        with self._counting:
            self.live[kind] += change

    def command_buffer(self, queue: Queue | None = None) -> Any:
        """A new command buffer, for the queue that computes unless another is named.

        The pool frees those that its users leave.
        """
        pool = (queue or self.queues.compute).pool
        info = vk.struct("VkCommandBufferAllocateInfo", commandPool=pool, commandBufferCount=1)
        handle = vk.ffi.new("VkCommandBuffer *")
        vk.check(
            vk.lib.vkAllocateCommandBuffers(self.handle, info, handle), "vkAllocateCommandBuffers"
        )
        self.live["CommandBuffer"] += 1
        return handle[0]

    def free_command_buffer(self, commands: Any, queue: Queue | None = None) -> None:
        """Free a command buffer that `command_buffer` made."""
        pool = (queue or self.queues.compute).pool
        vk.lib.vkFreeCommandBuffers(
            self.handle, pool, 1, vk.ffi.new("VkCommandBuffer[]", [commands])
        )
        self.live["CommandBuffer"] -= 1

    def submit(self, buffers: list[Any]) -> float:
        """Run command buffers and wait for their end: seconds until the driver had taken them.

        Unresponsive if they do not end within `patience_seconds`.
        """
        commands = vk.ffi.new("VkCommandBuffer[]", buffers)
        info = vk.struct("VkSubmitInfo", commandBufferCount=len(buffers), pCommandBuffers=commands)
        queue, fence = self.queues.compute.handle, self._fence[0]
        began = time.perf_counter()
        result = vk.lib.vkQueueSubmit(queue, 1, info, fence)
        seconds = time.perf_counter() - began
        vk.check(result, "vkQueueSubmit")
        patience = int(self.patience_seconds * 1e9)
        result = vk.lib.vkWaitForFences(self.handle, 1, self._fence, 1, patience)
        if result == vk.TIMEOUT:
            self.hangs = True
            raise Unresponsive(f"the device did not finish within {self.patience_seconds:g} s")
        vk.check(result, "vkWaitForFences")
        vk.check(vk.lib.vkResetFences(self.handle, 1, self._fence), "vkResetFences")
        return seconds

    def _places(self) -> Places:
        """Where its queues are; also sets what a tick is."""
        families = self._families()
        queues = places(families)
        self.tick_mask = (1 << families[queues.compute.family].timestampValidBits) - 1
        self.tick_seconds = float(self.physical.core.limits.timestampPeriod) * 1e-9
        return queues

    def _queue(self, place: Place) -> Queue:
        handle = vk.ffi.new("VkQueue *")
        vk.lib.vkGetDeviceQueue(self.handle, place.family, place.number, handle)
        return Queue(handle=handle[0], pool=self._pools[place.family])

    def _families(self) -> Any:
        count = vk.ffi.new("uint32_t *")
        vk.lib.vkGetPhysicalDeviceQueueFamilyProperties(self.physical.handle, count, vk.ffi.NULL)
        families = vk.ffi.new("VkQueueFamilyProperties[]", count[0])
        vk.lib.vkGetPhysicalDeviceQueueFamilyProperties(self.physical.handle, count, families)
        return families

    def _create(self, where: Places) -> Any:
        priorities = vk.ffi.new("float[]", [1.0, 1.0])
        queues = vk.ffi.new("VkDeviceQueueCreateInfo[]", len(where.families))
        for queue, family in zip(queues, where.families, strict=True):
            queue.sType = vk.STRUCTURE_TYPES["VkDeviceQueueCreateInfo"]
            queue.queueFamilyIndex, queue.queueCount = family, where.count(family)
            queue.pQueuePriorities = priorities
        names = [vk.ffi.new("char[]", name.encode()) for name in self.physical.features.extensions]
        extensions = vk.ffi.new("char *[]", names)
        info = vk.struct(
            "VkDeviceCreateInfo",
            next=self.physical.features.head,
            queueCreateInfoCount=len(queues),
            pQueueCreateInfos=queues,
            enabledExtensionCount=len(names),
            ppEnabledExtensionNames=extensions,
        )
        handle = vk.ffi.new("VkDevice *")
        vk.check(
            vk.lib.vkCreateDevice(self.physical.handle, info, vk.ffi.NULL, handle), "vkCreateDevice"
        )
        return handle[0]
