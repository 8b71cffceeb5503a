"""Weights as blocks of a format, by the quantiser that loses least: gguf's or one of this package.

`quants.quantise` is another: it takes the very steps that kernels take, which search for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import numpy as np

from vkbench.errors import UsageError
from vkbench_shaders.formats import Array, Format, format_named
from vkbench_shaders.inputs.blocks import read_scale
from vkbench_shaders.quantisers import codecs, nvfp4, packing, quants, vector_formats
from vkbench_shaders.quantisers.levels import Codes, Floats, Integers, Levels, Table
from vkbench_shaders.quantisers.super_blocks import (
    Fitted,
    Plan,
    fit,
    fit_with_minima,
    group_elements,
)

_PART: Final = 1 << 16  # weights at a time: their temporaries stay in a core's cache
_MOST: Final = 2.0**28  # what the largest scale of any format can reach, and its square a float32

Quantiser = Callable[[Floats, Floats], Codes]  # of blocks (blocks, elements) and their importance


def quantise_weights(name: str, values: Array, importance: Array | None = None) -> Array:
    """Values (..., elements a row) as the storage array of a format.

    Importance weighs the squared error of each value, or of each column. Only the quantisers of
    this package heed it.
    """
    fmt = format_named(name)
    _check(fmt, values, importance)
    stored = _blocks(fmt, values, importance)
    _check_scales(fmt, stored)
    return stored


def _blocks(fmt: Format, values: Array, importance: Array | None) -> Array:
    if fmt.name not in QUANTISERS:
        return _by_gguf(fmt, values)
    blocks = np.ascontiguousarray(values, np.float32).reshape(-1, fmt.elements)
    weights = np.ones(1) if importance is None else importance
    heeded = np.broadcast_to(weights, values.shape).reshape(blocks.shape)
    stored = np.empty((len(blocks), fmt.bytes), np.uint8)
    step = _PART // fmt.elements
    with np.errstate(under="ignore"):
        for first in range(0, len(blocks), step):
            part = slice(first, first + step)
            weighed = np.ascontiguousarray(heeded[part], np.float32)
            stored[part] = QUANTISERS[fmt.name](blocks[part], weighed)
    return stored.reshape(*values.shape[:-1], -1)


def _by_gguf(fmt: Format, values: Array) -> Array:
    try:
        return quants.quantise(fmt.name, values)
    except NotImplementedError as error:
        raise UsageError(f"neither gguf nor vkbench can quantise to {fmt.name}") from error


def _check(fmt: Format, values: Array, importance: Array | None) -> None:
    """UsageError for what no quantiser takes."""
    if not values.ndim or values.shape[-1] % fmt.elements:
        raise UsageError(
            f"rows of {values.shape[-1] if values.ndim else 1} are no whole blocks of {fmt.name}, "
            f"which hold {fmt.elements}"
        )
    if not np.isfinite(values).all():
        place = ", ".join(map(str, np.argwhere(~np.isfinite(values))[0]))
        raise UsageError(f"the weights hold {values[~np.isfinite(values)][0]} at [{place}]")
    most = nvfp4.MOST if fmt.name == "nvfp4" else _MOST
    if fmt.name in QUANTISERS and np.abs(values).max(initial=0) > most:
        raise _too_large(fmt)
    if importance is None:
        return
    if fmt.name not in QUANTISERS:
        raise UsageError(f"the quantiser of {fmt.name} heeds no importance")
    if not np.isfinite(importance).all() or (np.asarray(importance) < 0).any():
        raise UsageError("importance has to be finite, and nowhere below 0")


def _check_scales(fmt: Format, stored: Array) -> None:
    """UsageError if a scale did not fit into its half."""
    for scale in fmt.scales:
        if scale.kind in ("f16", "spread"):
            codes = read_scale(stored.view(np.uint8).reshape(-1, fmt.bytes), scale)
            if (codes & 0x7C00 == 0x7C00).any():
                raise _too_large(fmt)


def _too_large(fmt: Format) -> UsageError:
    return UsageError(f"the weights are too large for the scales of {fmt.name}")


def _super_blocks(
    fit: Callable[[Floats, Floats, Plan], Fitted],
    pack: Callable[[Fitted, Levels], Codes],
    plan: Plan,
    blocks: Floats,
    weights: Floats,
) -> Codes:
    fitted = fit(group_elements(blocks, plan.group), group_elements(weights, plan.group), plan)
    return pack(fitted, plan.levels)


def _super_block_quantiser(
    pack: Callable[[Fitted, Levels], Codes],
    group: int,
    levels: Levels,
    scales: tuple[int, int],
    reach: float,
) -> Quantiser:
    whole = Integers(least=scales[0], most=scales[1])
    plan = Plan(group=group, levels=levels, scales=whole, reach=reach)
    return partial(_super_blocks, fit, pack, plan)


def _with_minima(
    pack: Callable[[Fitted, Levels], Codes], group: int, most: int, scales: int, reach: float
) -> Quantiser:
    plan = Plan(
        group=group,
        levels=Integers(least=0, most=most),
        scales=Integers(least=0, most=scales),
        reach=reach,
    )
    return partial(_super_blocks, fit_with_minima, pack, plan)


_TABLE: Final = Table(codecs.TABLE)
_SIGNED_3: Final = Integers(least=-4, most=3)
_SIGNED_6: Final = Integers(least=-32, most=31)

QUANTISERS: Final[Mapping[str, Quantiser]] = {
    "q2_K": _with_minima(packing.pack_q2_k, 16, 3, 15, reach=0.3),
    "q3_K": _super_block_quantiser(packing.pack_q3_k, 16, _SIGNED_3, (-32, 31), reach=0.225),
    "q4_K": _with_minima(packing.pack_q4_k, 32, 15, 63, reach=0.06),
    "q5_K": _with_minima(packing.pack_q5_k, 32, 31, 63, reach=0.03),
    "q6_K": _super_block_quantiser(packing.pack_q6_k, 16, _SIGNED_6, (-128, 127), reach=0.03),
    "iq4_nl": _super_block_quantiser(packing.pack_iq4_nl, 32, _TABLE, (1, 1), reach=0.08),
    "iq4_xs": _super_block_quantiser(packing.pack_iq4_xs, 32, _TABLE, (-32, 31), reach=0.08),
    "nvfp4": nvfp4.quantise,
    **vector_formats.QUANTISERS,
}
