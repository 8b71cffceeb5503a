"""Sets of buffers for cold timings: enough, in whole samples, within memory."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest

from vkbench_worker.runtime.errors import OutOfMemory
from vkbench_worker.runtime.null import NullBuffer, NullDevice
from vkbench_worker.runtime.program import POISON_A, region_bytes
from vkbench_worker.timing.rotation import MOST_SETS, Rotation, rotation

CACHE = 1 << 20  # the NullDevice's
FLUSH = region_bytes(2 * CACHE)


def rotated(size: int, launches: int = 1, memory: int = 1 << 30, moved: int = 0) -> Rotation:
    """A rotation of an input and an output of one size; a launch moves all unless told."""
    device = NullDevice(memory_bytes=memory)
    with ExitStack() as stack:
        buffers = [device.buffer(size), device.buffer(size)]
        buffers[0].upload(np.full(size, 7, np.uint8))
        moved = moved or 2 * size
        made = rotation(device, buffers, [None, POISON_A], launches, moved, stack)
        assert made.sets[0] == buffers
        for source, target in made.sets[1:]:
            inside, outside = device.images([source, target])
            assert inside.data[0] == 7
            assert outside.data[0] != 7
    return made


@pytest.mark.parametrize(("size", "sets"), [(CACHE // 4, 5), (CACHE // 3, 5), (CACHE // 2, 3)])
def test_twice_the_cache_passes_between_two_uses_of_a_set(size: int, sets: int) -> None:
    made = rotated(size)
    assert len(made.sets) == sets
    assert (len(made.sets) - 1) * 2 * size >= 2 * CACHE
    assert made.scratch is None
    assert made.warnings == ()


def test_what_is_larger_than_all_caches_needs_one_set_besides() -> None:
    assert len(rotated(2 * CACHE).sets) == 2


@pytest.mark.parametrize(("moved", "sets"), [(CACHE // 2, 5), (CACHE, 3), (9 * CACHE, 2)])
def test_rows_of_a_table_pass_and_not_the_table(moved: int, sets: int) -> None:
    assert len(rotated(4 * CACHE, moved=moved).sets) == sets


def test_a_launch_that_moves_next_to_nothing_has_the_caches_overwritten() -> None:
    made = rotated(4 * CACHE, moved=100)
    assert (len(made.sets), made.launches) == (1, 1)
    assert made.scratch is not None


@pytest.mark.parametrize("launches", [1, 2, 3, 4, 7, 100])
def test_sets_make_whole_samples(launches: int) -> None:
    made = rotated(CACHE // 8, launches)
    assert len(made.sets) % made.launches == 0
    assert len(made.sets) >= 9
    assert made.launches >= min(launches, 9)


def test_small_kernels_have_the_caches_overwritten() -> None:
    made = rotated(100, launches=500)
    assert len(made.sets) == made.launches == MOST_SETS
    assert made.scratch is not None
    assert made.scratch.size == 2 * CACHE


class Shared(NullDevice):
    """A device of whose memory other programs leave so much."""

    most = 1 << 30

    def buffer(self, size: int) -> NullBuffer:
        if self.used_bytes + region_bytes(size) > self.most:
            raise OutOfMemory("VK_ERROR_OUT_OF_DEVICE_MEMORY")
        return super().buffer(size)


@pytest.mark.parametrize(
    ("size", "left", "is_cold"),
    [
        (CACHE // 4, FLUSH, True),
        (CACHE // 4, 0, False),
        (2 * CACHE, 0, True),
        (100, FLUSH, True),
        (100, 0, False),
    ],
)
def test_memory_that_others_have_is_done_without(size: int, left: int, is_cold: bool) -> None:
    device = Shared(memory_bytes=1 << 30)
    with ExitStack() as stack:
        buffers = [device.buffer(size), device.buffer(size)]
        device.most = device.used_bytes + left
        made = rotation(device, buffers, [None, POISON_A], 7, 2 * size, stack)
        assert (made.sets, made.launches) == ([buffers], 1)
        assert (made.scratch is not None) == (left > 0)
        assert (not made.warnings) == is_cold
    assert device.used_bytes == 2 * region_bytes(size)


def test_too_little_memory_is_told() -> None:
    made = rotated(CACHE // 8, memory=3 * CACHE // 4)
    assert made.scratch is None
    assert made.warnings == (f"not cold: no memory to displace a cache of {CACHE} bytes",)
