"""A storage buffer on a device between two guard bands."""

from __future__ import annotations

import numpy as np

from vkbench_worker.closing import Closing
from vkbench_worker.runtime.device import Buffer, as_own
from vkbench_worker.runtime.errors import Unsupported
from vkbench_worker.runtime.program import GUARD, POISON_A, pad_size, region_bytes
from vkbench_worker.runtime.vulkan.logical import Logical
from vkbench_worker.runtime.vulkan.memory import Memory
from vkbench_worker.runtime.vulkan.transfers import Span, Transfers


class VulkanBuffer(Closing):
    """Device memory; shaders see the guard band behind it too, so that stray writes land there."""

    def __init__(self, logical: Logical, memory: Memory, transfers: Transfers, size: int) -> None:
        limit = logical.facts.limits["max_storage_range"]
        if pad_size(size, 4) > limit:
            raise Unsupported(
                f"needs a storage buffer of {size:,} bytes; the device's limit is {limit:,}"
            )
        self.size = size
        self.range = min(pad_size(size, 4) + GUARD, limit)  # what a descriptor shows
        self._logical, self._memory, self._transfers = logical, memory, transfers
        self.region = memory.allocate(region_bytes(size))
        logical.live["buffer"] += 1
        self._closed = False
        self.poison = POISON_A

    def close(self) -> None:
        """Give the memory back; closing twice is fine."""
        if not self._closed:
            self._closed = True
            self._logical.live["buffer"] -= 1
            self._memory.free(self.region)

    @property
    def offset(self) -> int:
        """Where the data begin in the Vulkan buffer of the region's block."""
        return self.region.offset + GUARD

    def upload(self, data: np.ndarray) -> None:
        """Fill guard bands with poison and copy data in, before whatever runs next."""
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        if flat.size != self.size:
            raise ValueError(f"{flat.size} bytes for a buffer of {self.size}")
        self.poison = POISON_A
        tail = GUARD + self.size // 4 * 4
        self._transfers.fill(Span(self.region, 0, GUARD), POISON_A)
        self._transfers.fill(Span(self.region, tail, self._end - tail), POISON_A)
        self._transfers.upload(Span(self.region, GUARD, self.size), flat)

    def fill(self, word: int) -> None:
        """Fill data and guard bands with a word, before whatever runs next."""
        self.poison = word
        self._transfers.fill(Span(self.region, 0, self._end), word)

    def copy_from(self, other: Buffer) -> None:
        """Copy data and guard bands of a buffer of the same size, on the device."""
        source = as_own(VulkanBuffer, other)
        self.poison = source.poison
        self._transfers.copy(Span(source.region, 0, self._end), Span(self.region, 0, self._end))

    def spans(self, *, data: bool) -> tuple[Span, Span, Span]:
        """Lead guard, data (none of it unless asked for), trailing guard."""
        behind = GUARD + self.size
        return (
            Span(self.region, 0, GUARD),
            Span(self.region, GUARD, self.size if data else 0),
            Span(self.region, behind, self._end - behind),
        )

    @property
    def _end(self) -> int:
        return region_bytes(self.size)
