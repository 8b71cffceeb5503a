"""The numbers of a tensor from a seed, a part at a time, as the bytes of its format.

Matrices are quantised from normal numbers. That takes a core a minute for a thousand million of
them; so another way draws whole blocks from a small stock that was quantised before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vkbench_shaders.formats import Format
from vkbench_shaders.inputs import noise
from vkbench_shaders.models.making.tensors import TensorPlan
from vkbench_shaders.quantisers.quantiser import quantise_weights

Bytes = NDArray[np.uint8]
Parts = Callable[[TensorPlan, Format, int], Iterator[Bytes]]

PART: Final = 1 << 22  # numbers made at once, in whole blocks of every format
_UNIT: Final = 256  # numbers drawn together from the stock
_STOCK: Final = 1024  # units
_DRAWN: Final = 1 << 15  # units at once


def normal_parts(tensor: TensorPlan, fmt: Format, seed: int) -> Iterator[Bytes]:
    """Numbers of a tensor, each drawn by itself and then quantised."""
    if tensor.given:
        yield np.array(tensor.given, "<f4").view(np.uint8)
        return
    for first in range(0, tensor.count, PART):
        values = _normal(tensor, seed, first, min(PART, tensor.count - first))
        yield quantise_weights(fmt.name, values).view(np.uint8)


def drawn_parts(tensor: TensorPlan, fmt: Format, seed: int) -> Iterator[Bytes]:
    """Blocks of a matrix, drawn from a stock; small tensors are made as by `normal_parts`."""
    if not _is_drawn(tensor):
        yield from normal_parts(tensor, fmt, seed)
        return
    stock = _stock(fmt.name, tensor.deviation, seed)
    left = _bytes(tensor, fmt)
    for first in range(0, _units(tensor), _DRAWN):
        part = stock.take(_choices(tensor, seed, first), axis=0).reshape(-1)[:left]
        left -= part.size
        yield part


WAYS: Final[dict[str, Parts]] = {"blocks": drawn_parts, "normal": normal_parts}


def ends(tensor: TensorPlan, fmt: Format, seed: int, size: int) -> tuple[bytes, bytes]:
    """The first and the last `size` bytes of what `drawn_parts` makes, without the rest."""
    if not _is_drawn(tensor):
        whole = b"".join(part.tobytes() for part in normal_parts(tensor, fmt, seed))
        return whole[:size], whole[-size:]
    stock = _stock(fmt.name, tensor.deviation, seed)
    few = ceil(size / stock.shape[1]) + 1
    last = (_units(tensor) - 1) // _DRAWN * _DRAWN
    behind = [_choices(tensor, seed, first) for first in (last - _DRAWN, last) if first >= 0]
    head = stock.take(_choices(tensor, seed, 0)[:few], axis=0).tobytes()
    tail = stock.take(np.concatenate(behind)[-few:], axis=0).tobytes()
    over = _units(tensor) * stock.shape[1] - _bytes(tensor, fmt)
    whole_tail = tail[: len(tail) - over]
    return head[:size], whole_tail[-size:]


def _is_drawn(tensor: TensorPlan) -> bool:
    return _units(tensor) > _STOCK and not tensor.mean


def _units(tensor: TensorPlan) -> int:
    return ceil(tensor.count / _UNIT)


def _bytes(tensor: TensorPlan, fmt: Format) -> int:
    return tensor.count // fmt.elements * fmt.bytes


def _choices(tensor: TensorPlan, seed: int, first: int) -> NDArray[np.integer]:
    """Which units of the stock a part has that begins at a unit."""
    count = min(_DRAWN, _units(tensor) - first)
    bits = noise.raw(_key(seed, tensor.name, first), 2 * count).view("<u2")
    return bits % _STOCK


def _normal(tensor: TensorPlan, seed: int, first: int, count: int) -> NDArray[np.float32]:
    key = _key(seed, tensor.name, first)
    values = noise.bell(key, (count,)) * np.float32(tensor.deviation / noise.DEVIATION)
    if tensor.is_signed:
        signs = noise.raw(key + 1, count) & 1
        return values + np.where(signs, np.float32(tensor.mean), np.float32(-tensor.mean))
    return values + np.float32(tensor.mean)


@lru_cache(maxsize=64)
def _stock(fmt: str, deviation: float, seed: int) -> Bytes:
    """Units of quantised normal numbers."""
    values = noise.bell(_key(seed, f"stock of {fmt}", 0), (_STOCK, _UNIT))
    stored = quantise_weights(fmt, values * np.float32(deviation / noise.DEVIATION))
    return stored.view(np.uint8).reshape(_STOCK, -1)


def _key(seed: int, what: str, first: int) -> int:
    digest = hashlib.sha256(f"{seed}/{what}/{first}".encode()).digest()
    return int.from_bytes(digest[:15], "little")
