"""mul_mat: a matrix of weights times many vectors, the work of reading a prompt."""

from __future__ import annotations

import struct

from vkbench.case import parse
from vkbench.device import DeviceFacts
from vkbench_shaders import data
from vkbench_shaders.kernel import Binding, Kernel, Launch, Problem, Variant, grid
from vkbench_shaders.kernels.mul_mat_vec import infer, reference

TILE_M, TILE_N = 128, 64


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    m, n, k = (problem.shape[dim] for dim in "mnk")
    tiles_m, tiles_n = -(-m // TILE_M), -(-n // TILE_N)
    groups = grid(tiles_m * tiles_n)
    return Launch(
        groups=groups, push=struct.pack("<6I", m, n, k, tiles_m, tiles_m * tiles_n, groups[0])
    )


_SHAPES = (
    (1, 1, 1), (1, 17, 5), (13, 1, 7), (31, 29, 37), (127, 63, 15), (128, 64, 16), (129, 65, 17),
    (64, 16, 256), (61, 67, 1021), (257, 127, 96), (16, 33, 4096),
)  # fmt: skip
_TIMED = ((1024, 1024, 1024), (2048, 512, 2048))

MUL_MAT = Kernel(
    name="mul_mat",
    description="Multiplies a matrix of weights with many vectors, tile by tile: y = x weights^T.",
    dims=("m", "n", "k"),
    bindings=(
        Binding(
            name="weights",
            access="in",
            types=("f32",),
            dims=("m", "k"),
            description="matrix, row by row",
        ),
        Binding(
            name="x", access="in", types=("f32",), dims=("n", "k"), description="vectors, one a row"
        ),
        Binding(
            name="y",
            access="out",
            types=("f32",),
            dims=("n", "m"),
            description="products, one vector a row",
        ),
    ),
    variants=(
        Variant(
            name="portable",
            module="mul_mat",
            entry="mul_mat",
            arguments=lambda types: (types["weights"],),
            launch=launch,
            path="f32",
        ),
    ),
    inputs=lambda problem: {
        "weights": data.weights(problem, "weights"),
        "x": data.activations(problem, "x"),
    },
    reference=reference,
    flops=lambda problem: 2 * problem.shape["m"] * problem.shape["n"] * problem.shape["k"],
    infer=infer,
    rows="m",
    cases=tuple(parse(f"mul_mat/f32/m{m}_n{n}_k{k}") for m, n, k in _SHAPES),
    timed=tuple(parse(f"mul_mat/f32/m{m}_n{n}_k{k}") for m, n, k in _TIMED),
)
