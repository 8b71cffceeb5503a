"""Bytes between host and device: copies gather and go along with the next submission.

Where device and host have one memory (see memory.py), the host writes and reads it in place.

So does a recording that is put in line: copies, launches, and copies of what they left need no more
than one submission, for which the host waits 30 us or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from vkbench_worker.runtime import vk
from vkbench_worker.runtime.program import Bytes, pad_size
from vkbench_worker.runtime.vulkan.logical import Logical
from vkbench_worker.runtime.vulkan.memory import CACHED, UNIFIED, VISIBLE, Block, Region

STAGING_BYTES: Final = 32 << 20
_SHADERS_AND_COPIES: Final = vk.Stage.COMPUTE | vk.Stage.TRANSFER
_ALL_WRITES: Final = vk.Access.SHADER_WRITE | vk.Access.TRANSFER_WRITE
_ALL_ACCESS: Final = (
    _ALL_WRITES | vk.Access.SHADER_READ | vk.Access.UNIFORM_READ | vk.Access.TRANSFER_READ
)


@dataclass(frozen=True, slots=True)
class Span:
    """Some bytes of a region."""

    region: Region
    start: int
    size: int


class Transfers:
    """The staging block of a device and the copies that wait for the next submission."""

    def __init__(self, logical: Logical) -> None:
        self._logical = logical
        self._staging = Block(logical, STAGING_BYTES, (VISIBLE | CACHED, VISIBLE))
        self._host: Bytes = self._staging.map()
        self._commands, self._spare = logical.command_buffer(), logical.command_buffer()
        self._shown = [self._showing()] if logical.facts.type in UNIFIED else []
        self._line: list[Any] = []  # command buffers that come before the waiting copies
        self._recording = False
        self._used = 0  # bytes of the staging block that waiting copies refer to
        self._touched: set[Region] = set()  # regions that a waiting command writes or reads

    def upload(self, span: Span, data: Bytes) -> None:
        """Copy host bytes into a span, before whatever is submitted next."""
        if (mapped := self._map_span(span)) is not None:
            mapped[:] = data
            return
        done = 0
        while done < span.size:
            at, room = self._reserve(span.size - done)
            self._host[at : at + room] = data[done : done + room]
            self._copy(
                self._staging.buffer,
                at,
                span.region.block.buffer,
                _offset(span, done),
                room,
                span.region,
            )
            done += room

    def fill(self, span: Span, word: int) -> None:
        """Fill a span, whose bounds are multiples of four, with a word."""
        if (mapped := self._map_span(span)) is not None:
            mapped.view(np.uint32)[:] = word
        elif span.size:
            self._begin(span.region)
            vk.lib.vkCmdFillBuffer(
                self._commands, span.region.block.buffer, _offset(span), span.size, word
            )

    def copy(self, source: Span, target: Span) -> None:
        """Copy a span on the device."""
        buffers = (
            source.region.block.buffer,
            _offset(source),
            target.region.block.buffer,
            _offset(target),
        )
        self._copy(*buffers, source.size, source.region, target.region)

    def read(self, spans: Sequence[Span]) -> list[Bytes]:
        """The bytes of the spans, after all that was submitted and all that waits."""
        if spans and all(span.region.block.host is not None for span in spans):
            self.flush()
            return [_bytes(span).copy() for span in spans]
        arrays = [np.empty(span.size, np.uint8) for span in spans]
        waiting: list[tuple[Bytes, int]] = []  # where to, and where it lies in the staging block
        for span, array in zip(spans, arrays, strict=True):
            done = 0
            while done < span.size:
                if self._used >= STAGING_BYTES:
                    self._collect(waiting)
                at, room = self._reserve(span.size - done)
                self._copy(
                    span.region.block.buffer,
                    _offset(span, done),
                    self._staging.buffer,
                    at,
                    room,
                    span.region,
                )
                waiting.append((array[done : done + room], at))
                done += room
        self._collect(waiting)
        return arrays

    def enqueue(self, commands: Any) -> None:
        """Put commands in line behind the waiting copies; they go with the next submission."""
        if self._line:  # there is but one spare buffer for copies
            self.flush()
        self._line = [*self._take(), commands]
        self._commands, self._spare = self._spare, self._commands

    def forget(self, commands: Any) -> None:
        """Take commands out of the line again, if they are in it."""
        self._line = [waiting for waiting in self._line if waiting is not commands]

    def flush(self, *commands: Any) -> None:
        """Submit what is in line, the waiting copies, then these commands; wait for all of it."""
        line, self._line = self._line, []
        buffers = [*line, *self._take(), *commands]
        if buffers:
            self._logical.submit([*buffers, *self._shown])
        self._used = 0

    def close(self) -> None:
        self._host = np.empty(0, np.uint8)
        self._staging.close()

    def _map_span(self, span: Span) -> Bytes | None:
        """A span's bytes for the host to write, once nothing waits that may use them."""
        if span.region.block.host is None:
            return None
        if self._line or self._recording:
            self.flush()
        return _bytes(span)

    def _showing(self) -> Any:
        """Commands behind those of each submission: the host sees all that was written."""
        commands = self._logical.command_buffer()
        info = vk.struct("VkCommandBufferBeginInfo")
        vk.check(vk.lib.vkBeginCommandBuffer(commands, info), "vkBeginCommandBuffer")
        seen = vk.Access.HOST_READ | vk.Access.HOST_WRITE
        self._barrier(_SHADERS_AND_COPIES, _ALL_WRITES, vk.Stage.HOST, seen, commands)
        vk.check(vk.lib.vkEndCommandBuffer(commands), "vkEndCommandBuffer")
        return commands

    def _take(self) -> Sequence[Any]:
        """The waiting copies' commands, closed and ready to be submitted, if there are any."""
        if not self._recording:
            return ()
        self._barrier(
            vk.Stage.TRANSFER,
            vk.Access.TRANSFER_WRITE | vk.Access.TRANSFER_READ,
            _SHADERS_AND_COPIES | vk.Stage.HOST,
            _ALL_ACCESS | vk.Access.HOST_READ,
        )
        vk.check(vk.lib.vkEndCommandBuffer(self._commands), "vkEndCommandBuffer")
        self._recording = False
        self._touched.clear()
        return (self._commands,)

    def _collect(self, waiting: list[tuple[Bytes, int]]) -> None:
        self.flush()
        for target, at in waiting:
            target[:] = self._host[at : at + len(target)]
        waiting.clear()

    def _reserve(self, most: int) -> tuple[int, int]:
        """Offset and size of free staging bytes, as many as are left up to `wanted`."""
        if self._used >= STAGING_BYTES:
            self.flush()
        at = self._used
        size = min(most, STAGING_BYTES - at)
        self._used = pad_size(at + size)
        return at, size

    def _copy(
        self, source: Any, start: int, target: Any, to: int, size: int, *regions: Region
    ) -> None:
        self._begin(*regions)
        piece = vk.struct("VkBufferCopy", srcOffset=start, dstOffset=to, size=size)
        vk.lib.vkCmdCopyBuffer(self._commands, source, target, 1, piece)

    def _begin(self, *regions: Region) -> None:
        if not self._recording:
            info = vk.struct("VkCommandBufferBeginInfo", flags=1)
            vk.check(vk.lib.vkBeginCommandBuffer(self._commands, info), "vkBeginCommandBuffer")
            self._recording = True
            self._barrier(
                _SHADERS_AND_COPIES,
                _ALL_WRITES,
                vk.Stage.TRANSFER,
                vk.Access.TRANSFER_READ | vk.Access.TRANSFER_WRITE,
            )
        if not self._touched.isdisjoint(regions):
            access = vk.Access.TRANSFER_READ | vk.Access.TRANSFER_WRITE
            self._barrier(vk.Stage.TRANSFER, access, vk.Stage.TRANSFER, access)
            self._touched.clear()
        self._touched.update(regions)

    def _barrier(
        self, before: int, written: int, after: int, access: int, commands: Any = None
    ) -> None:
        barrier = vk.struct("VkMemoryBarrier", srcAccessMask=written, dstAccessMask=access)
        null = vk.ffi.NULL
        into = commands or self._commands
        vk.lib.vkCmdPipelineBarrier(into, before, after, 0, 1, barrier, 0, null, 0, null)


def _bytes(span: Span) -> Bytes:
    """The bytes of a span whose block is mapped."""
    assert span.region.block.host is not None
    return span.region.block.host[_offset(span) : _offset(span) + span.size]


def _offset(span: Span, done: int = 0) -> int:
    return span.region.offset + span.start + done
