"""A flight: submissions that the host hands over before earlier ones have ended.

Each part is up to three submissions: an upload, its steps, and a read-back. They may be on three
queues, and timeline semaphores keep the order within a part. Parts share nothing, so nothing keeps
the order between them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Final, Protocol

import numpy as np

from vkbench_worker.closing import Closing
from vkbench_worker.runtime import vk
from vkbench_worker.runtime.device import Part, Piece, Step, as_own
from vkbench_worker.runtime.errors import Unresponsive
from vkbench_worker.runtime.program import Bytes, pad_size
from vkbench_worker.runtime.vulkan.buffer import VulkanBuffer
from vkbench_worker.runtime.vulkan.logical import Logical
from vkbench_worker.runtime.vulkan.memory import CACHED, VISIBLE, Block
from vkbench_worker.runtime.vulkan.queues import Queue
from vkbench_worker.runtime.vulkan.transfers import Transfers

_TIMELINE: Final = 1  # VK_SEMAPHORE_TYPE_TIMELINE


class Recorded(Protocol):
    """A recording, which the device makes."""

    @property
    def commands(self) -> Any: ...

    def close(self) -> None: ...


class Timeline:
    """A semaphore that counts: submissions raise it, and others or the host wait for a value."""

    def __init__(self, logical: Logical) -> None:
        self._logical = logical
        kind = vk.struct("VkSemaphoreTypeCreateInfo", semaphoreType=_TIMELINE)
        self.handle = logical.create("Semaphore", vk.struct("VkSemaphoreCreateInfo", next=kind))
        self._handles = vk.ffi.new("VkSemaphore[]", [self.handle])
        self._values = vk.ffi.new("uint64_t[]", 1)
        self._wait = vk.struct(
            "VkSemaphoreWaitInfo",
            semaphoreCount=1,
            pSemaphores=self._handles,
            pValues=self._values,
        )

    def close(self) -> None:
        self._logical.destroy("Semaphore", self.handle)

    def wait(self, value: int) -> None:
        """Return once it has this value; Unresponsive after the device's patience."""
        self._values[0] = value
        patience = self._logical.patience_seconds
        result = vk.lib.vkWaitSemaphores(self._logical.handle, self._wait, int(patience * 1e9))
        if result == vk.TIMEOUT:
            self._logical.hangs = True
            raise Unresponsive(f"the device did not finish within {patience:g} s")
        vk.check(result, "vkWaitSemaphores")


class _Submission:
    """Commands for one queue that wait for one timeline and raise another."""

    def __init__(
        self,
        queue: Queue,
        commands: Any,
        after: tuple[Timeline, int] | None,
        raised: Timeline,
    ) -> None:
        self._queue = queue
        self._commands = vk.ffi.new("VkCommandBuffer[]", [commands])
        self._waits = vk.ffi.new("VkSemaphore[]", [after[0].handle] if after else 1)
        self._raises = vk.ffi.new("VkSemaphore[]", [raised.handle])
        self._stages = vk.ffi.new("VkPipelineStageFlags[]", [after[1] if after else 0])
        self._awaited, self._value = vk.ffi.new("uint64_t[]", 1), vk.ffi.new("uint64_t[]", 1)
        self._values = vk.struct(
            "VkTimelineSemaphoreSubmitInfo",
            waitSemaphoreValueCount=int(after is not None),
            pWaitSemaphoreValues=self._awaited,
            signalSemaphoreValueCount=1,
            pSignalSemaphoreValues=self._value,
        )
        self._info = vk.struct(
            "VkSubmitInfo",
            next=self._values,
            waitSemaphoreCount=int(after is not None),
            pWaitSemaphores=self._waits,
            pWaitDstStageMask=self._stages,
            commandBufferCount=1,
            pCommandBuffers=self._commands,
            signalSemaphoreCount=1,
            pSignalSemaphores=self._raises,
        )

    def submit(self, value: int) -> None:
        """Hand it over; it waits until the one timeline has this value, and gives it the other."""
        self._awaited[0] = self._value[0] = value
        vk.check(
            vk.lib.vkQueueSubmit(self._queue.handle, 1, self._info, vk.ffi.NULL), "vkQueueSubmit"
        )


class VulkanFlight(Closing):
    """Parts ready to be submitted, of which up to `depth` are at once in flight."""

    def __init__(
        self,
        logical: Logical,
        transfers: Transfers,
        parts: Sequence[Part],
        depth: int,
        record: Callable[[Sequence[Step]], Recorded],
    ) -> None:
        self._logical, self._transfers, self._depth = logical, transfers, depth
        self._record = record
        self._reads = [piece for part in parts for piece in part.reads]
        self._places: dict[int, int] = {}  # of a piece in the staging block
        self._base = 0  # value of the timelines before a run
        self._seconds: list[float] = []
        self._stack = ExitStack()
        try:
            self._stage([piece for part in parts for piece in (*part.uploads, *part.reads)])
            self._uploaded, self._computed, self._read = (self._timeline() for _ in range(3))
            self._parts = [self._prepare_part(part) for part in parts]
            self._last = self._read if self._reads else self._computed
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Free everything; closing twice is fine."""
        self._host = np.empty(0, np.uint8)
        if not self._logical.hangs:  # a driver may use a semaphore a moment longer than we wait
            self._logical.wait_idle()
        self._stack.close()

    def run(self) -> list[float]:
        """Submit all parts and wait for the last one: seconds by the host's clock."""
        self._transfers.flush()
        started, base = time.perf_counter(), self._base
        for number, part in enumerate(self._parts, base + 1):
            if number - base > self._depth:
                self._last.wait(number - self._depth)
            for submission in part:
                submission.submit(number)
        self._base = base + len(self._parts)
        self._last.wait(self._base)
        self._seconds = [time.perf_counter() - started]
        return self._seconds

    def enqueue(self) -> None:
        """Run at once: the host times it."""
        self.run()

    def seconds(self) -> list[float]:
        """What the last run gave."""
        return self._seconds

    def bytes_read(self) -> list[Bytes]:
        """What the last run read back, a piece after the other."""
        return [self._host_bytes_of(piece).copy() for piece in self._reads]

    def _timeline(self) -> Timeline:
        made = Timeline(self._logical)
        self._stack.callback(made.close)
        return made

    def _stage(self, pieces: Sequence[Piece]) -> None:
        """A place in memory of the host for each piece; those that are uploaded lie there."""
        size = 0
        for piece in pieces:
            self._places[id(piece)] = size
            size += pad_size(piece.size)
        self._host = np.empty(0, np.uint8)
        if not size:
            return
        self._staging = Block(self._logical, size, (VISIBLE | CACHED, VISIBLE))
        self._stack.callback(self._staging.close)
        self._host = np.frombuffer(self._staging.map(), np.uint8)
        for piece in pieces:
            if piece.data is not None:
                self._host_bytes_of(piece)[:] = piece.data

    def _host_bytes_of(self, piece: Piece) -> Bytes:
        at = self._places[id(piece)]
        return self._host[at : at + piece.size]

    def _prepare_part(self, part: Part) -> list[_Submission]:
        queues, submissions = self._logical.queues, []
        recording = self._record(part.steps)
        self._stack.callback(recording.close)
        if part.uploads:
            commands = self._record_copies(queues.upload, part.uploads, is_upload=True)
            submissions.append(_Submission(queues.upload, commands, None, self._uploaded))
        after = (self._uploaded, vk.Stage.COMPUTE) if part.uploads else None
        submissions.append(_Submission(queues.compute, recording.commands, after, self._computed))
        if part.reads:
            commands = self._record_copies(queues.read_back, part.reads, is_upload=False)
            after = (self._computed, vk.Stage.TRANSFER)
            submissions.append(_Submission(queues.read_back, commands, after, self._read))
        return submissions

    def _record_copies(self, queue: Queue, pieces: Sequence[Piece], *, is_upload: bool) -> Any:
        commands = self._logical.command_buffer(queue)
        self._stack.callback(self._logical.free_command_buffer, commands, queue)
        vk.check(
            vk.lib.vkBeginCommandBuffer(commands, vk.struct("VkCommandBufferBeginInfo")), "begin"
        )
        for piece in pieces:
            here = (self._staging.buffer, self._places[id(piece)])
            buffer = as_own(VulkanBuffer, piece.buffer)
            there = (buffer.region.block.buffer, buffer.offset + piece.start)
            (source, start), (target, to) = (here, there) if is_upload else (there, here)
            copy = vk.struct("VkBufferCopy", srcOffset=start, dstOffset=to, size=piece.size)
            vk.lib.vkCmdCopyBuffer(commands, source, target, 1, copy)
        if not is_upload:
            shown = vk.struct(
                "VkMemoryBarrier",
                srcAccessMask=vk.Access.TRANSFER_WRITE,
                dstAccessMask=vk.Access.HOST_READ,
            )
            null = vk.ffi.NULL
            vk.lib.vkCmdPipelineBarrier(
                commands, vk.Stage.TRANSFER, vk.Stage.HOST, 0, 1, shown, 0, null, 0, null
            )
        vk.check(vk.lib.vkEndCommandBuffer(commands), "vkEndCommandBuffer")
        return commands
