"""A recording: steps written once, run as often as one likes, timed between its stamps."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from vkbench_worker.closing import Closing
from vkbench_worker.runtime import vk
from vkbench_worker.runtime.device import Barrier, Copy, Dispatch, Fill, Stamp, Step, as_own
from vkbench_worker.runtime.errors import Unsupported
from vkbench_worker.runtime.program import region_bytes
from vkbench_worker.runtime.vulkan.buffer import VulkanBuffer
from vkbench_worker.runtime.vulkan.logical import Logical
from vkbench_worker.runtime.vulkan.pipeline import VulkanPipeline
from vkbench_worker.runtime.vulkan.transfers import Transfers

_RESULT_64_WAIT = vk.QueryResult.BITS_64 | vk.QueryResult.WAIT
_STAGES = vk.Stage.COMPUTE | vk.Stage.TRANSFER
_WRITES = vk.Access.SHADER_WRITE | vk.Access.TRANSFER_WRITE
_ACCESS = _WRITES | vk.Access.SHADER_READ | vk.Access.TRANSFER_READ
_LAUNCHES = vk.Access.SHADER_WRITE, vk.Access.SHADER_READ | vk.Access.SHADER_WRITE

_Bound = tuple[tuple[int, ...], bytes]  # what a launch is known by, and what it pushed


class VulkanRecording(Closing):
    """Steps ready to be submitted; owns its command buffer, descriptor sets and timestamps."""

    def __init__(self, logical: Logical, transfers: Transfers, steps: Sequence[Step]) -> None:
        self._logical, self._transfers = logical, transfers
        self._stamps = sum(isinstance(step, Stamp) for step in steps)
        self._pool: Any = None
        self._queries: Any = None
        self._sets: dict[tuple[int, ...], Any] = {}
        self._commands = logical.command_buffer()
        self._host_seconds: list[float] = []  # by the host's clock
        self._closed = False
        try:
            self._record(steps)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Free everything; closing twice is fine."""
        if self._closed:
            return
        self._closed = True
        self._transfers.forget(self._commands)
        self._logical.free_command_buffer(self._commands)
        if self._queries is not None:
            self._logical.destroy("QueryPool", self._queries)
        if self._pool is not None:
            self._logical.destroy("DescriptorPool", self._pool)

    @property
    def commands(self) -> Any:
        """The command buffer, for submissions that others make."""
        return self._commands

    def run(self) -> list[float]:
        """Submit, wait, and give the seconds from each stamp to the next.

        Without GPU timestamps these are the host's seconds from submission to completion, shared
        out evenly.
        """
        started = time.perf_counter()
        self._transfers.flush(self._commands)
        elapsed = time.perf_counter() - started
        spans = max(0, self._stamps - 1)
        self._host_seconds = [elapsed / spans] * spans if spans else []
        return self.seconds()

    def enqueue(self) -> None:
        """Run with the next submission; at once where the host times."""
        if self._logical.clock == "host":
            self.run()
        else:
            self._transfers.enqueue(self._commands)

    def seconds(self) -> list[float]:
        """What the last run gave; it is submitted if it still waits."""
        self._transfers.flush()
        return self._host_seconds if self._queries is None else self._seconds()

    def _record(self, steps: Sequence[Step]) -> None:
        if self._stamps and self._logical.clock == "gpu":
            info = vk.struct(
                "VkQueryPoolCreateInfo", queryType=vk.TIMESTAMP, queryCount=self._stamps
            )
            self._queries = self._logical.create("QueryPool", info)
        dispatches = [step for step in steps if isinstance(step, Dispatch)]
        self._make_sets(dispatches)
        uniform = any(vk.UNIFORM_BUFFER in _kinds(step) for step in dispatches)
        more = vk.Access.UNIFORM_READ if uniform else 0
        vk.check(
            vk.lib.vkBeginCommandBuffer(self._commands, vk.struct("VkCommandBufferBeginInfo")),
            "begin",
        )
        if self._queries is not None:
            vk.lib.vkCmdResetQueryPool(self._commands, self._queries, 0, self._stamps)
        barriers = {
            launches_only: vk.struct(
                "VkMemoryBarrier", srcAccessMask=before, dstAccessMask=after | more
            )
            for launches_only, (before, after) in ((True, _LAUNCHES), (False, (_WRITES, _ACCESS)))
        }
        bound: _Bound = ((), b"")
        stamps = 0
        for step in steps:
            if isinstance(step, Dispatch):
                bound = self._dispatch(step, bound)
            elif isinstance(step, Barrier):
                stages = vk.Stage.COMPUTE if step.launches_only else _STAGES
                barrier, null = barriers[step.launches_only], vk.ffi.NULL
                vk.lib.vkCmdPipelineBarrier(
                    self._commands, stages, stages, 0, 1, barrier, 0, null, 0, null
                )
            elif isinstance(step, Stamp):
                self._stamp(stamps)
                stamps += 1
            elif isinstance(step, Copy):
                self._copy(step)
            else:
                self._fill(step)
        vk.check(vk.lib.vkEndCommandBuffer(self._commands), "vkEndCommandBuffer")

    def _dispatch(self, step: Dispatch, bound: _Bound) -> _Bound:
        """Bind what the launch before has not bound, and launch."""
        commands, pipeline = self._commands, as_own(VulkanPipeline, step.pipeline)
        launch, (known, pushed) = _identity(step), bound
        if launch[:1] != known[:1]:
            vk.lib.vkCmdBindPipeline(commands, vk.COMPUTE_PIPELINE, pipeline.handle)
        if step.push and (launch[:1] != known[:1] or step.push != pushed):
            data = vk.ffi.from_buffer(step.push)
            vk.lib.vkCmdPushConstants(
                commands, pipeline.layout, vk.COMPUTE_SHADER, 0, len(step.push), data
            )
        if launch != known:
            sets, null = self._sets[launch], vk.ffi.NULL
            vk.lib.vkCmdBindDescriptorSets(
                commands, vk.COMPUTE_PIPELINE, pipeline.layout, 0, 1, sets, 0, null
            )
        vk.lib.vkCmdDispatch(commands, *step.groups)
        return launch, step.push

    def _stamp(self, number: int) -> None:
        if self._queries is not None:
            vk.lib.vkCmdWriteTimestamp(self._commands, vk.Stage.BOTTOM, self._queries, number)

    def _fill(self, step: Fill) -> None:
        region, size = as_own(VulkanBuffer, step.buffer).region, region_bytes(step.buffer.size)
        vk.lib.vkCmdFillBuffer(self._commands, region.block.buffer, region.offset, size, 0)

    def _copy(self, step: Copy) -> None:
        source, target = as_own(VulkanBuffer, step.source), as_own(VulkanBuffer, step.target)
        size = source.size
        if size:
            piece = vk.struct(
                "VkBufferCopy", srcOffset=source.offset, dstOffset=target.offset, size=size
            )
            buffers = (source.region.block.buffer, target.region.block.buffer)
            vk.lib.vkCmdCopyBuffer(self._commands, *buffers, 1, piece)

    def _make_sets(self, dispatches: Sequence[Dispatch]) -> None:
        distinct = {_identity(step): step for step in dispatches}
        if not distinct:
            return
        kinds = Counter(kind for step in distinct.values() for kind in _kinds(step))
        sizes = vk.ffi.new(
            "VkDescriptorPoolSize[]", list((kinds or {vk.STORAGE_BUFFER: 1}).items())
        )
        info = vk.struct(
            "VkDescriptorPoolCreateInfo",
            maxSets=len(distinct),
            poolSizeCount=len(sizes),
            pPoolSizes=sizes,
        )
        self._pool = self._logical.create("DescriptorPool", info)
        self._sets = {key: self._make_set(step) for key, step in distinct.items()}

    def _make_set(self, step: Dispatch) -> Any:
        pipeline = as_own(VulkanPipeline, step.pipeline)
        buffers = [as_own(VulkanBuffer, buffer) for buffer in step.buffers]
        layouts = vk.ffi.new("VkDescriptorSetLayout[]", [pipeline.set_layout])
        info = vk.struct(
            "VkDescriptorSetAllocateInfo",
            descriptorPool=self._pool,
            descriptorSetCount=1,
            pSetLayouts=layouts,
        )
        sets = vk.ffi.new("VkDescriptorSet[]", 1)
        vk.check(
            vk.lib.vkAllocateDescriptorSets(self._logical.handle, info, sets),
            "vkAllocateDescriptorSets",
        )
        shown = vk.ffi.new("VkDescriptorBufferInfo[]", len(buffers))
        writes = vk.ffi.new("VkWriteDescriptorSet[]", len(buffers))
        bound = zip(pipeline.bindings, pipeline.kinds, buffers, strict=True)
        for place, (number, kind, buffer) in enumerate(bound):
            info, write = shown[place], writes[place]
            info.buffer, info.offset, info.range = (
                buffer.region.block.buffer,
                buffer.offset,
                self._range(buffer, kind),
            )
            write.sType = vk.STRUCTURE_TYPES["VkWriteDescriptorSet"]
            write.dstSet, write.dstBinding = sets[0], number
            write.descriptorCount, write.descriptorType, write.pBufferInfo = (
                1,
                kind,
                shown + place,
            )
        vk.lib.vkUpdateDescriptorSets(self._logical.handle, len(writes), writes, 0, vk.ffi.NULL)
        return sets

    def _range(self, buffer: VulkanBuffer, kind: int) -> int:
        """Bytes of a buffer that a descriptor shows."""
        if kind == vk.STORAGE_BUFFER:
            return buffer.range
        limit = int(self._logical.physical.core.limits.maxUniformBufferRange)
        if buffer.size > limit:
            raise Unsupported(
                f"needs a uniform buffer of {buffer.size:,} bytes; the device's limit is {limit:,}"
            )
        return min(buffer.range, limit)

    def _seconds(self) -> list[float]:
        ticks = vk.ffi.new("uint64_t[]", self._stamps)
        vk.check(
            vk.lib.vkGetQueryPoolResults(
                self._logical.handle,
                self._queries,
                0,
                self._stamps,
                8 * self._stamps,
                ticks,
                8,
                _RESULT_64_WAIT,
            ),
            "vkGetQueryPoolResults",
        )
        mask, period = self._logical.tick_mask, self._logical.tick_seconds
        return [((ticks[i + 1] - ticks[i]) & mask) * period for i in range(self._stamps - 1)]


def _kinds(step: Dispatch) -> Sequence[int]:
    """Of each buffer of a launch, whether it is bound as a storage or a uniform buffer."""
    return as_own(VulkanPipeline, step.pipeline).kinds


def _identity(step: Dispatch) -> tuple[int, ...]:
    return (id(step.pipeline), *(id(buffer) for buffer in step.buffers))
