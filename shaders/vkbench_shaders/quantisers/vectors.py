"""Levels that are vectors: a code stands for several values that lie behind each other."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from vkbench_shaders.quantisers.levels import Floats

Places = NDArray[np.uint16]

# Rows multiplied at once: so few that BLAS takes no threads, which wait for each other far longer
# than such a product lasts; and runs of them whose products stay in a core's cache.
_RUN: Final = 8
_RUNS: Final = 32


class Vectors:
    """The rows of a table; the code of a vector is its row."""

    is_symmetric = True  # signs are stored apart, or both occur

    def __init__(self, table: Floats) -> None:
        self._table = np.ascontiguousarray(table, np.float32)
        self.largest = float(np.abs(table).max())
        # w * (u - g)^2 is least where (w * u) * g - w * g^2 / 2 is most
        self._factors = np.concatenate([self._table, -np.square(self._table) / 2], axis=1).T.copy()

    def nearest(self, values: Floats, weights: Floats) -> Floats:
        """The vectors nearest to values (elements of a group, groups...)."""
        points = self._table.take(self._places(values, weights), axis=0)
        return np.ascontiguousarray(np.moveaxis(points, -1, 1)).reshape(values.shape)

    def codes(self, levels: Floats) -> Places:
        """The rows of vectors of the table: (vectors of a group, groups...)."""
        return self._places(levels, np.ones_like(levels))

    def _places(self, values: Floats, weights: Floats) -> Places:
        length = self._table.shape[1]
        groups = values.shape[1:]
        vectors, heeded = (array.reshape(-1, length, *groups) for array in (values, weights))
        targets = np.concatenate([vectors * heeded, heeded], axis=1)
        places = np.empty((len(vectors), *groups), np.uint16)
        for number, array in enumerate(targets):
            places[number] = self._likest(array.reshape(2 * length, -1).T).reshape(groups)
        return places

    def _likest(self, targets: Floats) -> Places:
        """For each row, the place of the factors with which it has the largest product."""
        runs = np.zeros((-(-len(targets) // _RUN), _RUN, targets.shape[1]), np.float32)
        runs.reshape(-1, targets.shape[1])[: len(targets)] = targets
        places = np.empty(runs.shape[:2], np.uint16)
        for first in range(0, len(runs), _RUNS):
            part = slice(first, first + _RUNS)
            places[part] = (runs[part] @ self._factors).argmax(axis=2)
        return places.reshape(-1)[: len(targets)]


class ShiftedVectors:
    """Vectors that are all shifted up in a group, or all down; such a code has a 1 in bit 15."""

    is_symmetric = True

    def __init__(self, table: Floats, shift: float) -> None:
        self._shift = shift
        self._up, self._down = Vectors(table + shift), Vectors(table - shift)
        self.largest = self._up.largest

    def nearest(self, values: Floats, weights: Floats) -> Floats:
        """The vectors nearest to values, under the better shift of each group."""
        both = [levels.nearest(values, weights) for levels in (self._up, self._down)]
        up, down = ((weights * np.square(values - near)).sum(axis=0) for near in both)
        return np.where(up <= down, *both)

    def codes(self, levels: Floats) -> Places:
        """The rows of vectors in the table, with bit 15 where they are shifted down."""
        is_up = (levels - self._shift == np.rint(levels - self._shift)).all(axis=0)
        down = self._down.codes(levels) | np.uint16(1 << 15)
        return np.where(is_up, self._up.codes(levels), down)
