"""Where an array's items lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where a binding's items lie in its storage, in items of its array type."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    storage: int  # items that the buffer holds, gaps included

    @staticmethod
    def contiguous(shape: Sequence[int]) -> Layout:
        """Rows after rows, no gaps."""
        strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
        return Layout(shape=tuple(shape), strides=tuple(strides), storage=prod(shape))

    def view(self, storage: np.ndarray) -> np.ndarray:
        """The items of a flat storage array, shaped."""
        item = storage.itemsize
        return np.lib.stride_tricks.as_strided(
            storage[self.offset :], self.shape, [stride * item for stride in self.strides]
        )
