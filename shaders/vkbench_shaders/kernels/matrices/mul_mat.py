"""mul_mat: matrices of weights times many vectors, the work of reading a prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

import numpy as np

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
from vkbench_shaders import formats
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import (
    MOST_GROUPS,
    Array,
    Arrays,
    Check,
    Forms,
    Kernel,
    Launch,
    Layout,
    Param,
    Problem,
    Shapes,
    Work,
    grid,
)
from vkbench_shaders.kernels.matrices import products, tiles
from vkbench_shaders.kernels.matrices.cooperative import byte_product, decoding, fragments
from vkbench_shaders.kernels.matrices.cooperative.variants import Path
from vkbench_shaders.kernels.shared import rows, sums
from vkbench_shaders.kernels.shared.cooperative import tiles as coop_tiles
from vkbench_shaders.kernels.shared.cooperative.panels import Factor
from vkbench_shaders.kernels.shared.cooperative.product import Product
from vkbench_shaders.rounded_factors import Floats, Of

BATCHES = ("batch3", "batch2")  # of the weights, outermost first
_FEWEST = 32  # vectors and rows from which on `auto` decodes all weights before it multiplies
REPEATS = ("repeat3", "repeat2")  # matrices of x for each of the weights


def batches(problem: Problem, binding: str) -> tuple[int, ...]:
    """Matrices of a binding along dimensions 3 and 2; none when there are no batches at all."""
    counts = {name: int(problem.params[name]) for name in (*BATCHES, *REPEATS)}
    if set(counts.values()) == {1}:
        return ()
    repeats = [1 if binding == "weights" else counts[name] for name in REPEATS]
    return tuple(counts[name] * repeat for name, repeat in zip(BATCHES, repeats, strict=True))


def layout(problem: Problem, binding: str) -> Layout:
    shape = (*batches(problem, binding), *problem.full_shape(binding))
    if problem.params["layout"] == "strided":
        return Layout.with_gaps(shape, *rows.gaps(problem, binding))
    return Layout.contiguous(shape)


def sizes(problem: Problem) -> tuple[int, int, int]:
    """Rows and columns of a product, and how many products there are."""
    return problem.shape["m"], problem.shape["n"], prod(batches(problem, "x"))


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    (m, n, depth), k = sizes(problem), problem.shape["k"]
    tile = tiles.choose(problem, device, m, n, depth)
    tiles_m, tiles_n = -(-m // tile.m), -(-n // tile.n)
    groups = grid(tiles_m * tiles_n, depth)
    return Launch(
        groups=groups,
        push={
            "m": m,
            "n": n,
            "k": k,
            "tiles_m": tiles_m,
            "tiles": tiles_m * tiles_n,
            "groups_x": groups[0],
            **tiles.places(problem),
            **{name: int(problem.params[name]) for name in ("batch2", "repeat2", "repeat3")},
        },
        constants=tile.constants(problem),
    )


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    if reason := coop_tiles.refuses(problem.params):
        return reason
    depth = prod(batches(problem, "x"))
    if depth > MOST_GROUPS:
        return f"x has {depth} matrices, one launch takes {MOST_GROUPS} at most"
    return tiles.refuses(problem, device)


def _sums(problem: Problem, inputs: Arrays, rows: Array | None, of_weights: Of, of_x: Of) -> Floats:
    weights = of_weights(products.exact_weights(problem, inputs, rows))
    if weights.ndim == 4:
        for axis, name in enumerate(REPEATS):
            weights = np.repeat(weights, int(problem.params[name]), axis)
    return of_x(products.exact_x(problem, inputs)) @ weights.swapaxes(-1, -2)


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    """Sizes of one matrix of a batch; the parameters say how many there are."""
    return products.infer({name: shape[-2:] for name, shape in shapes.items()}, types)


def _product(problem: Problem, sums: str) -> Product:
    """What cooperative matrices multiply."""
    inner, repeat, outer = (int(problem.params[name]) for name in ("batch2", "repeat2", "repeat3"))
    matrices = prod(batches(problem, "weights"))
    weights = Factor.of_rows(problem, "weights", problem.shape["m"], matrices)
    weights = replace(weights, inner=inner, repeat=repeat, outer=outer)
    return Product.of_vectors(problem, sums, weights, prod(batches(problem, "x")))


COOPERATIVE = Path(
    pose=_product,
    takes=products.is_numbers,
    suits=lambda problem, device: min(problem.shape["m"], problem.shape["n"]) >= _FEWEST,
    tunes=("tile",),
    rounds=lambda types: types["weights"] == "f32",
)

_DECODING = decoding.variant(_product, COOPERATIVE.takes, COOPERATIVE.rounds)
_FRAGMENTS = fragments.variant(_product, COOPERATIVE.takes)


def _count(description: str) -> Param:
    return Param(default=1, least=1, description=description)


_SHAPES = (
    "m1_n1_k256",
    "m5_n3_k14336",
    "m1_n31_k4096",
    "m33_n1_k1024",
    "m31_n33_k512/layout=strided",
    "m13_n7_k256/batch2=2,batch3=2,repeat2=3,repeat3=2",
)
_HALVES = ("m31_n33_k512/layout=strided", "m33_n17_k256")  # x in f16; weights are read as with f32
_Q8_0 = ("m5_n3_k14336", "m17_n33_k96", "m97_n101_k768", *_SHAPES[-2:])  # x in blocks without sums
_SHORT = ("m3_n17_k32", "m17_n2_k96/layout=strided")  # blocks of 32
_RAGGED = ("m1_n1_k1", "m13_n1_k7", "m31_n29_k37", "m61_n67_k1021", "m17_n33_k127/layout=strided")
_MORE = (
    *(f"m{m}_n{n}_k512/tile={m}x{n}" for m, n in ((64, 64), (32, 64), (128, 16))),
    *(f"m{tile.m + 1}_n{tile.n - 1}_k256/tile={tile.name}" for tile in tiles.TILES),
    "m97_n101_k768",
    "m7_n5_k256/batch2=3,layout=strided",
    "m9_n4_k512/repeat3=3",
    "m2_n3_k256/batch3=2,repeat2=4",
)
_MORE_FOR = ("f32", "q4_0", "q4_K")
_COOPERATIVE = tuple(f"m261_n37_k256/tile={name}" for name in coop_tiles.EXACT_NAMES)
_COOPERATIVE_FOR = ("f16", "q4_0", "iq2_xs")


def _cases() -> Iterator[Case]:
    for fmt in products.WEIGHTS:
        for x in products.VECTORS:
            if products.accepts({"weights": fmt, "x": x}):
                for shape in _shapes(fmt, x):
                    yield parse(f"mul_mat/{products.type_part(fmt, x)}/{shape}")


def _shapes(fmt: str, x: str) -> Iterator[str]:
    if x == products.BYTES_ALONE:
        yield from _Q8_0
        return
    if fmt in formats.PLAIN:
        yield from _RAGGED
    if x == "f16":
        yield from _HALVES if fmt in _MORE_FOR else _HALVES[:1]
        return
    yield from _SHAPES
    if format_named(fmt).elements <= 32:
        yield from _SHORT
    if fmt in _MORE_FOR:
        yield from _MORE
    if fmt in _COOPERATIVE_FOR and x == "f32":
        yield from _COOPERATIVE


def _timed_cases() -> Iterator[Case]:
    yield from (
        parse(f"mul_mat/f32/{shape}") for shape in ("m1024_n1024_k1024", "m2048_n512_k2048")
    )
    for fmt in products.WEIGHTS:
        for x in ("f32", "q8_1", products.BYTES_ALONE):
            if products.accepts({"weights": fmt, "x": x}):
                yield parse(f"mul_mat/{products.type_part(fmt, x)}/m4096_n512_k14336")


MUL_MAT = Kernel(
    name="mul_mat",
    description="Multiplies matrices of weights with many vectors, tile by tile: y = x weights^T.",
    group="matmul",
    dims=("m", "n", "k"),
    bindings=products.BINDINGS,
    params={
        "batch2": _count("matrices of weights along dimension 2"),
        "batch3": _count("matrices of weights along dimension 3"),
        "repeat2": _count("matrices of x for each of the weights along dimension 2"),
        "repeat3": _count("matrices of x for each of the weights along dimension 3"),
        "layout": rows.LAYOUT,
        "tile": tiles.TILE.with_choices(*coop_tiles.NAMES),
    },
    tuning=tiles.tuning(sizes),
    forms=Forms(accepts=products.accepts, layout=layout, infer=infer),
    variants=(
        _FRAGMENTS,
        _DECODING,
        *COOPERATIVE.variants(),
        *byte_product.variants(_product),
        *tiles.variants("mul_mat", launch, refuses),
    ),
    inputs=products.inputs,
    check=Check(reference=sums.reference(_sums), deviations=sums.deviations(_sums), rows="m"),
    work=Work(
        flops=lambda problem: (
            2 * prod(batches(problem, "x")) * prod(problem.shape[dim] for dim in "mnk")
        ),
    ),
    cases=CaseList(_cases),
    timed=CaseList(_timed_cases),
)
