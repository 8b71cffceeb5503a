"""What buffers hold where nothing was written: poison, in them and in the guards around them."""

from __future__ import annotations

import numpy as np

from vkbench_shaders.kernel import Array
from vkbench_worker.judging.rounding import bits
from vkbench_worker.runtime.program import Image


def guard_changes(image: Image) -> int:
    """How many bytes outside of a buffer changed."""
    return sum(int(np.count_nonzero(side)) for side in changed_guards(image))


def changed_guards(image: Image) -> tuple[Array, Array]:
    """Which bytes before and behind a buffer changed; the guard ends on a whole word."""
    behind = _pattern(image.poison, len(image.trail) + 4)[-len(image.trail) % 4 :]
    lead = _pattern(image.poison, len(image.lead))
    return image.lead != lead, image.trail != behind[: len(image.trail)]


def poison_of(image: Image, kind: np.dtype[np.generic]) -> Array:
    """What the items of a buffer held before anything was written there, as bits of their size."""
    return _pattern(image.poison, image.data.size).view(f"u{kind.itemsize}")


def poison_in(image: Image, storage: Array) -> Array:
    """What each item of a storage held before a kernel wrote it, as bits."""
    return _pattern(image.poison, storage.nbytes).view(bits(storage).dtype)


def _pattern(word: int, size: int) -> Array:
    """A word over and over, as bytes."""
    return np.full(-(-size // 4), word, np.uint32).view(np.uint8)[:size]
