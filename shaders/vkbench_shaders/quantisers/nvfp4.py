"""nvfp4: groups of 16 numbers under scales that are floats of eight bits themselves.

The best of the scales around the plain one is found by trying them, since they are few.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from vkbench_shaders.quantisers.codecs import nibbles
from vkbench_shaders.quantisers.fitting import Best, inverse, total
from vkbench_shaders.quantisers.levels import Codes, Floats, Table
from vkbench_shaders.quantisers.super_blocks import group_elements

_GROUP: Final = 16
_MAGNITUDES: Final = (0, 1, 2, 3, 4, 6, 8, 12)  # their places are codes; 8 is the bit of a sign
_LEVELS: Final = Table(sorted({sign * each for each in _MAGNITUDES for sign in (-1, 1)}))
_CODES: Final = np.array([*range(15, 8, -1), *range(8)], np.uint8)  # of the levels in their order
_NORMAL: Final = np.ldexp(1 + np.arange(8)[None] / 8, np.arange(-7, 8)[:, None])
# What each code of a scale stands for: half of the float, since levels are doubled.
_SCALES: Final = np.concatenate([np.arange(8) / 8 * 2.0**-7, _NORMAL.ravel()])[:127].astype(
    np.float32
)
MOST: Final = float(_SCALES[-1]) * max(_MAGNITUDES)  # the largest number
_TRIED: Final = range(-7, 3)  # scales, from the one just above the plain one


def quantise(blocks: Floats, weights: Floats) -> Codes:
    """Four scales, then nibbles: in each group the first eight are the low ones."""
    x, heeded = group_elements(blocks, _GROUP), group_elements(weights, _GROUP)
    plain = np.searchsorted(_SCALES, np.abs(x).max(axis=0) / np.float32(max(_MAGNITUDES)))
    best = Best()
    for step in _TRIED:
        places = np.clip(plain + step, 0, len(_SCALES) - 1)
        scales = _SCALES[places]
        near = _LEVELS.nearest(x * inverse(scales), heeded)
        error = total(heeded * np.square(x - scales * near))
        best.offer(error, places.astype(np.float32), near)
    places, near = best.found
    codes = _CODES[_LEVELS.codes(near)].transpose(2, 1, 0).reshape(len(blocks), -1)
    scales = np.ascontiguousarray(places.T).astype(np.uint8)
    return np.concatenate([scales, nibbles(codes, _GROUP // 2)], axis=1, dtype=np.uint8)
