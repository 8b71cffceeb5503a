"""The queues of a device: one computes, and up to two copy beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vkbench_worker.runtime import vk


@dataclass(frozen=True, kw_only=True)
class Place:
    """Which queue of which family."""

    family: int
    number: int = 0


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where the queues of a device are; two may be the same one."""

    compute: Place
    upload: Place
    read_back: Place

    @property
    def families(self) -> list[int]:
        """Every queue family that has one of these queues, once."""
        return sorted({place.family for place in self._all})

    def count(self, family: int) -> int:
        """How many queues of a family these need."""
        return 1 + max(place.number for place in self._all if place.family == family)

    @property
    def _all(self) -> tuple[Place, ...]:
        return (self.compute, self.upload, self.read_back)


def places(families: Sequence[Any]) -> Places:
    """The family that computes, best one with timestamps, and one that can only copy, if any."""
    computing = [i for i, family in enumerate(families) if family.queueFlags & vk.COMPUTE_QUEUE]
    best = max(computing, key=lambda i: (families[i].timestampValidBits > 0, -i))
    copying = [i for i, family in enumerate(families) if _only_copies(family.queueFlags)]
    compute = Place(family=best)
    if not copying:
        return Places(compute=compute, upload=compute, read_back=compute)
    first = max(copying, key=lambda i: (families[i].queueCount > 1, -i))
    second = Place(family=first, number=min(1, families[first].queueCount - 1))
    return Places(compute=compute, upload=Place(family=first), read_back=second)


def _only_copies(flags: int) -> bool:
    others = vk.GRAPHICS_QUEUE | vk.COMPUTE_QUEUE
    return bool(flags & vk.TRANSFER_QUEUE) and not flags & (others | vk.VIDEO_QUEUES)


@dataclass(frozen=True, kw_only=True)
class Queue:
    """One queue, and the pool that its command buffers come from."""

    handle: Any
    pool: Any
