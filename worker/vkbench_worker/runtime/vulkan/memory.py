"""Device memory in few big blocks, each one Vulkan buffer, shared out to many small ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from vkbench_worker.runtime import vk
from vkbench_worker.runtime.errors import OutOfMemory
from vkbench_worker.runtime.program import Bytes, pad_size
from vkbench_worker.runtime.vulkan.logical import Logical

DEVICE_LOCAL: Final = vk.Memory.DEVICE_LOCAL
VISIBLE: Final = vk.Memory.HOST_VISIBLE | vk.Memory.HOST_COHERENT
CACHED: Final = vk.Memory.HOST_CACHED

UNIFIED: Final = ("cpu", "integrated")  # types of devices whose memory is the host's

BLOCK_BYTES: Final = 128 << 20
_USAGE: Final = vk.Usage.COPIED_FROM | vk.Usage.COPIED_TO | vk.Usage.STORAGE | vk.Usage.UNIFORM
_SHARE_OF_HEAP: Final = 0.8  # the rest is left to the system and the driver


class Block:
    """One allocation with one buffer over all of it, and a list of its free spans."""

    def __init__(self, logical: Logical, size: int, preferences: Sequence[int]) -> None:
        self._logical = logical
        self.size = size
        addressed = "bda" in logical.facts.features
        info = vk.struct(
            "VkBufferCreateInfo", size=size, usage=_USAGE | (vk.Usage.ADDRESSED if addressed else 0)
        )
        families = vk.ffi.new("uint32_t[]", logical.families)
        if len(families) > 1:  # queues that only copy use the same buffers
            info.sharingMode = vk.CONCURRENT
            info.queueFamilyIndexCount, info.pQueueFamilyIndices = len(families), families
        self.buffer = logical.create("Buffer", info)
        try:
            self.memory = self._allocate(preferences, addressed)
        except BaseException:
            logical.destroy("Buffer", self.buffer)
            raise
        vk.check(
            vk.lib.vkBindBufferMemory(logical.handle, self.buffer, self.memory, 0),
            "vkBindBufferMemory",
        )
        self.host: Bytes | None = None  # its bytes, where transfers go through no staging block
        self.free = [(0, size)]  # (offset, size), by offset, never two in touch

    @property
    def unused(self) -> bool:
        return self.free == [(0, self.size)]

    def map(self) -> Bytes:
        """The block's bytes, visible to the host until it is closed."""
        pointer = vk.ffi.new("void **")
        result = vk.lib.vkMapMemory(self._logical.handle, self.memory, 0, vk.WHOLE, 0, pointer)
        vk.check(result, "vkMapMemory")
        return np.frombuffer(vk.ffi.buffer(pointer[0], self.size), np.uint8)

    @property
    def is_cached(self) -> bool:
        """Whether the host may map the block, and reads it as fast as memory of its own."""
        return bool(self._flags & (VISIBLE | CACHED) == VISIBLE | CACHED)

    def take(self, size: int) -> int | None:
        """Offset of a span of that size, no longer free; None when there is none."""
        for at, (offset, free) in enumerate(self.free):
            if free >= size:
                self.free[at : at + 1] = [(offset + size, free - size)] if free > size else []
                return offset
        return None

    def give(self, offset: int, size: int) -> None:
        """Free a span again, joined with its free neighbours."""
        spans: list[tuple[int, int]] = []
        for start, length in sorted([*self.free, (offset, size)]):
            if spans and sum(spans[-1]) == start:
                spans[-1] = (spans[-1][0], spans[-1][1] + length)
            else:
                spans.append((start, length))
        self.free = spans

    def close(self) -> None:
        self.host = None
        self._logical.destroy("Buffer", self.buffer)
        vk.lib.vkFreeMemory(self._logical.handle, self.memory, vk.ffi.NULL)
        self._logical.live["DeviceMemory"] -= 1

    def _allocate(self, preferences: Sequence[int], addressed: bool) -> Any:
        needs = vk.ffi.new("VkMemoryRequirements *")
        vk.lib.vkGetBufferMemoryRequirements(self._logical.handle, self.buffer, needs)
        memory = self._logical.physical.memory
        kind = _memory_type(memory, needs.memoryTypeBits, preferences)
        self._flags = memory.memoryTypes[kind].propertyFlags
        flags = vk.struct("VkMemoryAllocateFlagsInfo", flags=2) if addressed else None
        info = vk.struct(
            "VkMemoryAllocateInfo", next=flags, allocationSize=needs.size, memoryTypeIndex=kind
        )
        handle = vk.ffi.new("VkDeviceMemory *")
        result = vk.lib.vkAllocateMemory(self._logical.handle, info, vk.ffi.NULL, handle)
        vk.check(result, f"allocating {self.size:,} bytes on {self._logical.facts.name}")
        self._logical.live["DeviceMemory"] += 1
        return handle[0]


def _memory_type(memory: Any, allowed: int, preferences: Sequence[int]) -> int:
    for properties in preferences:
        for index in range(memory.memoryTypeCount):
            flags = memory.memoryTypes[index].propertyFlags
            if allowed >> index & 1 and flags & properties == properties:
                return index
    raise OutOfMemory("the device has no memory of the kind that a storage buffer needs")


@dataclass(frozen=True, slots=True)
class Region:
    """A span of a block."""

    block: Block
    offset: int
    size: int


class Memory:
    """Device-local memory of one device."""

    def __init__(self, logical: Logical) -> None:
        self._logical = logical
        self._blocks: list[Block] = []
        self._is_unified = logical.facts.type in UNIFIED
        self._limit = int(logical.facts.memory_bytes * _SHARE_OF_HEAP)

    @property
    def left_bytes(self) -> int:
        """Bytes that may still be allocated."""
        return self._limit - sum(block.size for block in self._blocks if not block.unused)

    def allocate(self, size: int) -> Region:
        """A region of at least `size` bytes; OutOfMemory when the device has no room for it."""
        size = pad_size(size)
        for block in self._blocks:
            offset = block.take(size)
            if offset is not None:
                return Region(block, offset, size)
        block = self._grow(max(size, BLOCK_BYTES) if size * 2 <= BLOCK_BYTES else size)
        offset = block.take(size)
        assert offset is not None
        return Region(block, offset, size)

    def free(self, region: Region) -> None:
        """Give a region back; a block that served one big buffer goes with it."""
        region.block.give(region.offset, region.size)
        if region.block.unused and region.block.size != BLOCK_BYTES:
            self._drop(region.block)

    def close(self) -> None:
        for block in list(self._blocks):
            self._drop(block)

    def _grow(self, size: int) -> Block:
        if size > self._limit - sum(block.size for block in self._blocks):
            self._drop_unused()
        used = sum(block.size for block in self._blocks)
        if used + size > self._limit:
            lender = self._logical.facts.name
            raise OutOfMemory(
                f"needs {used + size:,} bytes of device memory, {lender} lends {self._limit:,}"
            )
        try:
            block = self._block(size)
        except OutOfMemory:
            self._drop_unused()
            block = self._block(size)
        self._blocks.append(block)
        return block

    def _block(self, size: int) -> Block:
        """A new block; mapped, where device and host have one memory."""
        if not self._is_unified:
            return Block(self._logical, size, (DEVICE_LOCAL, 0))
        block = Block(self._logical, size, (DEVICE_LOCAL | VISIBLE | CACHED, DEVICE_LOCAL, 0))
        if block.is_cached:
            block.host = block.map()
        return block

    def _drop_unused(self) -> None:
        for block in [block for block in self._blocks if block.unused]:
            self._drop(block)

    def _drop(self, block: Block) -> None:
        self._blocks.remove(block)
        block.close()
