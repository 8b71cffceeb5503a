"""Convolutions along one to three axes, as products of matrices: patches are read in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Check,
    Forms,
    Kernel,
    Launch,
    Problem,
    Push,
    Settings,
    Stage,
    Tuning,
    Work,
    grid,
)
from vkbench_shaders.kernels.images import conv_coop, conv_matrices, patches, windows
from vkbench_shaders.kernels.images.conv_layout import (
    LAYOUT,
    along,
    is_last,
    layout,
    put_channels_last,
)
from vkbench_shaders.kernels.images.patches import Slide
from vkbench_shaders.kernels.images.windows import TAPS
from vkbench_shaders.kernels.shared import sums
from vkbench_shaders.kernels.shared.cooperative.tiles import no_tiles
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.launch import divisor
from vkbench_shaders.quantisers import quants
from vkbench_shaders.rounded_factors import Floats, Of

_AXES = 3  # of the shader's windows
_FOUR = 4
# One pixel of 8 channels a thread, where channels are outermost or innermost: conv_few.slang.
_FEW = (
    patches.Tile(m=8, n=128, block_m=8, block_n=1, at_once=1.0, share=0.2),
    patches.Tile(m=128, n=8, block_m=1, block_n=8, at_once=1.0, share=0.2),
)
_FEW_RESULTS = 8  # channels of y up to which that is faster than tiles
_FEW_DEPTH = 256  # the same for numbers that a sum adds up: each thread has all of them
_CHUNK = 64  # numbers along k that it does at a time
TILE = patches.TILE.with_choices(*(tile.name for tile in _FEW), *conv_matrices.NAMES)


@dataclass(frozen=True)
class Conv:
    """One operation: along which axes, and its cases."""

    name: str
    axes: str
    description: str
    shapes: tuple[str, ...]
    timed: tuple[str, ...]


def product_sizes(problem: Problem) -> tuple[int, int]:
    """Rows and columns of the product: results and windows, or the other way round."""
    seen = problem.shape["n"] * prod(axis.count for axis in along(problem))
    sizes = (problem.shape["o"], seen)
    return sizes[::-1] if is_last(problem) else sizes


def rank_tiles(problem: Problem, device: DeviceFacts) -> list[patches.Tile]:
    """The tile that was asked for, or all, the one that should be fastest first."""
    few = _FEW[is_last(problem)]
    named = problem.params.get("tile", "auto")
    if named == few.name:
        return [few]
    tiles = patches.rank_tiles(problem, device, *product_sizes(problem))
    if named != "auto":
        return tiles
    sizes = _sizes(problem)
    is_few = sizes.results <= _FEW_RESULTS and sizes.depth <= _FEW_DEPTH
    return [few, *tiles] if is_few else [*tiles, few]


def candidates(problem: Problem, device: DeviceFacts) -> list[Settings]:
    return [{"tile": tile.name} for tile in rank_tiles(problem, device)]


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    rows, columns = product_sizes(problem)
    tile = rank_tiles(problem, device)[0]
    tiles_m = -(-rows // tile.m)
    groups = grid(tiles_m * -(-columns // tile.n))
    return Launch(
        groups=groups,
        push={**_push(problem), "tiles_m": tiles_m, "groups_x": groups[0]},
        constants=_constants(problem, tile),
        entry=f"conv_{'last_' if is_last(problem) else ''}{tile.block}",
    )


def _constants(problem: Problem, tile: patches.Tile) -> dict[str, int]:
    flags = _flags(problem)
    if tile not in _FEW:
        return tile.constants | flags
    taps = conv_coop.taps(_sizes(problem), _CHUNK)
    return {"THREADS": tile.threads, **taps, **{name: flags[name] for name in ("X_WIDE", "Y_WIDE")}}


def _push(problem: Problem) -> Push:
    """What a launch by any tile says."""
    images, channels, results = (problem.shape[dim] for dim in "nco")
    by_channels = divisor(channels)
    return {
        **patches.vectors([Slide.of(axis) for axis in along(problem)], _AXES),
        "images": images,
        "channels": channels,
        "channels_multiplier": by_channels["multiplier"],
        "channels_shift": by_channels["shift"],
        "results": results,
    }


def _flags(problem: Problem) -> dict[str, int]:
    """Whether rows of y, of weights and of x, as the shader goes through them, are whole fours."""
    channels, results = problem.shape["c"], problem.shape["o"]
    area = results if is_last(problem) else prod(axis.count for axis in along(problem))
    depth = channels * prod(axis.taps for axis in along(problem))
    rows = {"Y_WIDE": area, "WEIGHTS_WIDE": depth, "X_WIDE": channels}
    return {name: number % _FOUR == 0 for name, number in rows.items()}


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    tile = problem.params.get("tile")
    if tile in conv_matrices.NAMES or tile == _FEW[not is_last(problem)].name:
        return no_tiles(tile)
    return patches.refuses(problem, device)


def _pose_product(problem: Problem) -> conv_matrices.Posed:
    return conv_matrices.Posed(
        problem=problem, sizes=_sizes(problem), push=_push(problem), wide=_flags(problem)
    )


def _sizes(problem: Problem) -> conv_coop.Sizes:
    windows = along(problem)
    return conv_coop.Sizes(
        results=problem.shape["o"],
        pixels=problem.shape["n"] * prod(axis.count for axis in windows),
        depth=problem.shape["c"] * prod(axis.taps for axis in windows),
        is_last=is_last(problem),
        is_padded=any(axis.padding for axis in windows),
    )


def _sums(problem: Problem, inputs: Arrays, rows: Array | None, of_weights: Of, of_x: Of) -> Floats:
    stored = inputs["weights"] if rows is None else inputs["weights"][rows]
    weights = of_weights(quants.dequantise(problem.types["weights"], stored))
    taps = weights.reshape(*weights.shape[:2], -1)
    images = problem.shape["n"]
    counts = [axis.count for axis in along(problem)]
    total = np.zeros((images, len(weights), prod(counts)))
    seen = windows.taps(of_x(inputs["x"].astype(np.float64)), along(problem), 0.0)
    for tap, (_, values) in enumerate(seen):
        total += taps[:, :, tap] @ values.reshape(images, problem.shape["c"], prod(counts))
    return total.reshape(images, len(weights), *counts)


def flops(problem: Problem) -> int:
    taps = prod(axis.taps for axis in along(problem))
    return 2 * prod(problem.array_shape("y")) * problem.shape["c"] * taps


def inputs(problem: Problem) -> dict[str, Array]:
    return {name: data.bell(problem, name) for name in ("weights", "x")}


_ALONG_W = (
    "n1_c1_w1_o1_s1",
    "n0_c2_w4_o3_s2",
    "n2_c3_w17_o5_s3",
    "n3_c5_w61_o37_s4/dilation=3,padding=5,stride=2",
    "n1_c2_w3_o2_s2/padding=6,stride=5",
    "n1_c17_w140_o33_s1",
)
_ALONG_HW = (
    "n1_c1_h1_w1_o1_r1_s1",
    "n2_c3_h7_w9_o5_r3_s3/padding=1",
    "n1_c5_h13_w11_o12_r3_s2/dilation=2,padding=3,stride=3",
    "n2_c2_h8_w6_o3_r1_s1/stride=2",
    "n1_c3_h4_w5_o2_r11_s11/padding=6",
    "n3_c4_h6_w10_o67_r2_s3/dilation_h=2,padding=2,padding_h=0,stride=2,stride_h=1",
    "n1_c24_h16_w12_o20_r3_s3/padding=1",
    "n2_c12_h9_w11_o37_r3_s3",
)
_IN_COOPERATIVE_TILES = "n2_c12_h13_w11_o141_r3_s3/padding=1"
_IN_WHOLE_TILES = "n1_c32_h16_w16_o16_r3_s3/padding=1"
_ALONG_DHW = (
    "n1_c1_d1_h1_w1_o1_t1_r1_s1",
    "n2_c3_d4_h5_w6_o5_t2_r3_s3/padding=1",
    "n1_c2_d7_h6_w9_o3_t3_r2_s1/dilation=2,padding=2,padding_d=3,stride=2,stride_h=1",
    "n1_c5_d3_h4_w8_o33_t3_r3_s3/padding=1",
)
_IMAGES = (
    "n16_c256_h19_w19_o4096_r4_s4",
    "n16_c8_h19_w19_o128_r4_s4",
    "n16_c8_h19_w19_o130_r4_s4",
    "n16_c4_h19_w19_o4_r2_s2",
    "n1_c3_h224_w224_o8_r3_s3",
    "n1_c1_h224_w224_o8_r2_s2",
    "n8_c1_h224_w224_o8_r2_s2",
    "n1_c32_h58_w58_o64_r3_s3",
    "n8_c32_h58_w58_o64_r3_s3",
    "n8_c128_h16_w16_o512_r3_s3",
    "n1_c32_h1536_w1536_o64_r3_s3",
)
_CONVS = (
    Conv(
        "conv1d",
        "w",
        "Convolves the last axis with windows over all channels.",
        _ALONG_W,
        ("n8_c256_w8192_o512_s3/padding=1", "n1_c80_w3000_o512_s3/padding=1"),
    ),
    Conv(
        "conv2d",
        "hw",
        "Convolves the last two axes with windows over all channels.",
        _ALONG_HW,
        (*_IMAGES, "n1_c256_h256_w256_o256_r3_s3/padding=1"),
    ),
    Conv(
        "conv3d",
        "dhw",
        "Convolves the last three axes with windows over all channels.",
        _ALONG_DHW,
        (
            "n1_c320_d8_h38_w26_o1280_t3_r3_s3/padding=1",
            "n1_c1280_d8_h38_w26_o1280_t3_r3_s3/padding=1",
            "n1_c320_d8_h76_w52_o1280_t3_r3_s3/padding=1",
        ),
    ),
)


def _cases(conv: Conv) -> Iterator[Case]:
    named = [(f"{conv.name}/{fmt}", shape) for fmt in patches.WEIGHTS for shape in conv.shapes]
    yield from (parse(f"{name}/{shape}") for name, shape in named)
    if conv.axes == "hw":
        yield from (put_channels_last(f"{name}/{shape}") for name, shape in named)
        largest = conv.shapes[-2].partition("/")[0]
        tiles = (*patches.TILES, _FEW[False])
        yield from (parse(f"conv2d/f32/{largest}/tile={tile.name}") for tile in tiles)
        yield put_channels_last(f"conv2d/f32/{largest}/tile={_FEW[True].name}")
        tiled = [f"conv2d/f16/{_IN_COOPERATIVE_TILES},tile={name}" for name in conv_matrices.NAMES]
        yield from (parse(case) for case in tiled)
        yield from (put_channels_last(case) for case in tiled)
        for name in conv_matrices.OF_PANELS:
            yield parse(f"conv2d/f16/{_IN_WHOLE_TILES},tile={name}")


def _timed_cases(conv: Conv) -> Iterator[Case]:
    yield from (parse(f"{conv.name}/f32/{shape}") for shape in conv.timed)
    large = [shape for shape in conv.timed if "_c320_" in shape or "_c256_" in shape]
    yield from (parse(f"{conv.name}/f16/{shape}") for shape in large)
    if conv.axes == "hw":
        yield from (
            put_channels_last(f"{conv.name}/f32/{shape}") for shape in (*large, *_IMAGES[-4:])
        )


def _stages(orders: Sequence[bool]) -> Iterator[Stage]:
    """Entry points besides conv_8x8; `orders`: whether channels are innermost."""
    for innermost in orders:
        last = "last_" if innermost else ""
        for module, block in (("", "8x8"), ("", "4x4"), ("conv_few", _FEW[innermost].block)):
            if (entry := f"conv_{last}{block}") != "conv_8x8":
                yield Stage(entry=entry, module=module, arguments=lambda types: (types["weights"],))


def _kernel(conv: Conv) -> Kernel:
    taps = tuple(TAPS[axis] for axis in conv.axes)
    orders = (False, True) if conv.axes == "hw" else (False,)
    return Kernel(
        name=conv.name,
        group="conv",
        description=conv.description,
        dims=("n", "c", *conv.axes, "o", *taps),
        bindings=patches.bindings(
            conv.axes,
            ("o", "c"),
            "taps of each channel of x, for each of y",
            "sums over all channels and taps, a number a window",
        ),
        params={
            **windows.params(conv.axes, "stride", "padding", "dilation"),
            **({"layout": LAYOUT, "tile": TILE} if conv.axes == "hw" else {}),
        },
        tuning=Tuning(params=("tile",), candidates=candidates) if conv.axes == "hw" else None,
        forms=Forms(layout=layout, empty=("n",)),
        variants=(
            conv_matrices.variant(_pose_product, orders),
            portable(
                "conv",
                launch,
                "f32",
                entry="conv_8x8",
                arguments=lambda types: (types["weights"],),
                refuses=refuses,
                more=tuple(_stages(orders)),
            ),
        ),
        inputs=inputs,
        check=Check(reference=sums.reference(_sums), deviations=sums.deviations(_sums), rows="o"),
        work=Work(flops=flops),
        cases=CaseList(lambda: _cases(conv)),
        timed=CaseList(lambda: _timed_cases(conv)),
    )


CONV = tuple(_kernel(conv) for conv in _CONVS)
