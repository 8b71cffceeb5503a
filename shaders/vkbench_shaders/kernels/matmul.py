"""matmul and out_prod: products of dense matrices as true singles, however they lie in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import lcm, prod

import numpy as np
from numpy.typing import NDArray

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders import data, quants
from vkbench_shaders.kernel import (
    MOST_GROUPS,
    Array,
    Arrays,
    Binding,
    Kernel,
    Launch,
    Layout,
    Param,
    Problem,
    Shapes,
    Stage,
    Variant,
    too_large,
)
from vkbench_shaders.kernels import dense, dense_vec

Dims = Mapping[str, tuple[str, str, str]]

DIMS = ("b", "m", "n", "k")

# how a and b lie: as matrices' rows, or as transposed ones, whose columns are without gaps
_TRANSPOSED = {"transposed_a": "a", "transposed_b": "b", "transposed": "ab"}


def layout(problem: Problem, binding: str) -> Layout:
    """By the parameter `layout`; permuted ones lie as heads of attention do, b along k as well."""
    asked = str(problem.params["layout"])
    if asked in _TRANSPOSED:
        asked = "transposed" if binding in _TRANSPOSED[asked] else "contiguous"
    if asked == "permuted" and problem.kernel.binding(binding).dims == ("b", "k", "n"):
        asked = "permuted_columns"
    return dense.layout(problem, binding, asked)


def accepts(types: Mapping[str, str]) -> bool:
    """Two operands of one format, or b in singles; y in singles, or as both operands."""
    a, b, y = (types[name] for name in "aby")
    return b in (a, "f32") and (y == "f32" or a == b == y)


def launch(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    """Row by row or column by column where there are a few vectors, in tiles otherwise."""
    if found := _few_vectors(problem):
        return dense_vec.launches(problem, device, found)
    return dense.tiled(problem, device)


def _few_vectors(problem: Problem) -> dense_vec.Roles | None:
    return dense_vec.roles(problem) if problem.params.get("tile", "auto") == "auto" else None


def _parts(problem: Problem) -> int:
    """Parts of k; none where no sums go to scratch."""
    if found := _few_vectors(problem):
        cut, waits = dense_vec.cut(problem, found), False
    else:
        tile, cut = dense.choose(problem)
        waits = tile.waits(cut)
    return cut.parts if cut.parts > 1 or waits else 0


def scratch(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
    """Sums over parts of k where it is cut, and those that wait for more."""
    return (4 * _parts(problem) * prod(problem.shape[dim] for dim in "bmn"),)


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    """Why a device cannot multiply it, or None."""
    depth = problem.shape["b"] * max(1, _parts(problem))
    if depth > MOST_GROUPS:
        return f"{depth} matrices and parts of k, one launch takes {MOST_GROUPS} at most"
    return too_large(problem, device)


def inputs(problem: Problem) -> dict[str, Array]:
    """Bell-shaped numbers, as randn's are."""
    return {name: data.bell(problem, name) for name in "ab"}


def _operand(problem: Problem, binding: str, stored: Array) -> NDArray[np.float64]:
    """An operand's matrix for each of y."""
    values = quants.dequantise(problem.types[binding], stored)
    served = np.repeat(values, int(problem.params[f"repeat_{binding}"]), axis=0)
    return served[: problem.shape["b"]]


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    stored = inputs["a"] if rows is None else inputs["a"].take(rows, axis=_rows_axis(problem))
    a, b = _operand(problem, "a", stored), _operand(problem, "b", inputs["b"])
    if _rows_axis(problem) == 2:
        a = a.swapaxes(1, 2)
    return {"y": a @ b}


def _rows_axis(problem: Problem) -> int:
    """Which axis of a is m."""
    return problem.kernel.binding("a").dims.index("m")


def _infer(dims: Dims) -> Callable[[Shapes, Mapping[str, str]], dict[str, int]]:
    """Sizes from both operands; matrices of y are the fewest that both are for in turn."""

    def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
        found = {"b": lcm(*(shape[0] for shape in shapes.values()))}
        for name, shape in shapes.items():
            for dim, size in zip(dims[name][1:], shape[1:], strict=True):
                if found.setdefault(dim, size) != size:
                    raise UsageError(f"{dim} is {found[dim]} in one array and {size} in {name}")
        return {dim: found[dim] for dim in DIMS}

    return infer


def _arguments(types: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(types[name] for name in "aby")


def _stage(entry: str, module: str = "") -> Stage:
    return Stage(entry=entry, module=module, arguments=_arguments)


PORTABLE = Variant(
    name="portable",
    module="matmul",
    entry="matmul_8x8",
    arguments=_arguments,
    more=(
        _stage("matmul_8x4"),
        _stage("matmul_4x4"),
        _stage("matmul_rows", "matmul_vec"),
        _stage("matmul_columns", "matmul_vec"),
        Stage(entry="add_parts", arguments=lambda types: (types["y"],)),
    ),
    launch=launch,
    scratch=scratch,
    path="f32_true",
    refuses=refuses,
)

_REPEATS = {"repeat_a": dense.repeat("a"), "repeat_b": dense.repeat("b")}
_CUTS = {"tile": dense.TILE, "split": dense.SPLIT}


def _kernel(
    name: str,
    description: str,
    dims: Dims,
    params: Mapping[str, Param],
    cases: tuple[Case, ...],
    timed: tuple[Case, ...],
    types: tuple[str, ...],
) -> Kernel:
    return Kernel(
        name=name,
        description=description,
        group="matmul",
        dims=DIMS,
        bindings=(
            Binding(name="a", access="in", types=types, dims=dims["a"], description="left matrix"),
            Binding(name="b", access="in", types=types, dims=dims["b"], description="right one"),
            Binding(name="y", access="out", types=types, dims=dims["y"], description="products"),
        ),
        params={**params, **_REPEATS},
        accepts=accepts,
        layout=layout,
        variants=(PORTABLE,),
        inputs=inputs,
        reference=reference,
        flops=lambda problem: 2 * prod(problem.shape[dim] for dim in DIMS),
        infer=_infer(dims),
        rows="m",
        empty=DIMS,
        cases=cases,
        timed=timed,
    )


_PAIRS = ("f16", "f16:b=f16", "f16:b=f16:y=f16", "bf16", "bf16:b=bf16", "bf16:b=bf16:y=bf16")
_SHAPES = (
    "b1_m1_n1_k1",
    "b2_m13_n9_k3",
    "b1_m128_n128_k128",
    "b3_m37_n70_k300",
    "b1_m65_n68_k40",
    "b2_m33_n31_k67/repeat_a=2",
    "b4_m12_n40_k16/repeat_b=4",
    "b6_m9_n20_k24/repeat_a=3,repeat_b=2",
    "b1_m9_n10_k0",
    "b1_m0_n10_k5",
    "b2_m9_n11_k1",
    "b1_m40_n36_k520/split=3",
    "b2_m17_n33_k100/split=2",
    "b1_m33_n37_k3100/split=1",
    "b1_m32_n36_k2600/split=2",
)
_LAYOUTS = ("strided", "permuted", "transposed_a", "transposed_b", "transposed")
_LAID = ("b3_m21_n27_k19", "b2_m36_n44_k20")
_VECTORS = (
    "b1_m1_n7_k1000/layout=transposed_b",
    "b1_m300_n1_k64",
    "b3_m11_n1_k37/layout=strided",
    "b1_m1_n1_k5000",
    "b1_m1_n600_k70",
    "b2_m1_n131_k600",
    "b2_m515_n1_k33/layout=transposed_a",
    "b1_m1_n90_k4100/layout=strided",
    "b1_m67_n3_k256",
    "b1_m4_n61_k130/layout=transposed_b",
    "b8_m33_n1_k128/repeat_a=4,layout=permuted",
    "b2_m1_n260_k64/repeat_b=2,layout=transposed_b",
)
_PAIRED = (
    "b2_m13_n9_k3",
    "b1_m70_n52_k300",
    "b2_m33_n35_k67/layout=transposed_b",
    "b1_m33_n1_k256",
    "b1_m1_n77_k129",
    "b1_m35_n33_k260/split=2",
)


def _cases() -> Iterator[str]:
    yield from _SHAPES
    yield from (f"{shape}/layout={how}" for how in _LAYOUTS for shape in _LAID)
    yield from _VECTORS
    for tile in dense.TILES:
        yield f"b1_m{tile.m + 5}_n{tile.n - 3}_k52/tile={tile.name}"


_SQUARES = tuple(f"b1_m{size}_n{size}_k{size}" for size in (256, 512, 1024, 2048, 4096))
_TIMED = (
    *_SQUARES,
    "b1_m4096_n512_k14336",
    "b1_m4096_n1_k14336",
    "b1_m1_n4096_k14336",
    "b32_m512_n512_k128/layout=transposed_b",
)
_TIMED_HALVES = (
    "b1_m1024_n1024_k1024",
    "b1_m4096_n4096_k4096",
    "b1_m4096_n512_k14336",
    "b32_m512_n512_k128/layout=transposed_b",
)

MATMUL_DENSE = _kernel(
    "matmul",
    "Multiplies dense matrices of a batch as true singles: y = a b.",
    {"a": ("b", "m", "k"), "b": ("b", "k", "n"), "y": ("b", "m", "n")},
    {"layout": dense.layouts(*_TRANSPOSED), **_CUTS},
    cases=(
        *(parse(f"matmul/f32/{shape}") for shape in _cases()),
        *(parse(f"matmul/{pair}/{shape}") for pair in _PAIRS for shape in _PAIRED),
    ),
    timed=(
        *(parse(f"matmul/f32/{shape}") for shape in _TIMED),
        *(parse(f"matmul/f16:b=f16/{shape}") for shape in _TIMED_HALVES),
        parse("matmul/f16/b32_m16416_n1_k128/layout=permuted,repeat_a=4"),
        parse("matmul/bf16:b=bf16/b1_m4096_n4096_k4096"),
    ),
    types=("f32", "f16", "bf16"),
)

OUT_PROD = _kernel(
    "out_prod",
    "Adds up outer products of the rows of two matrices, for each of a batch: y = a^T b.",
    {"a": ("b", "k", "m"), "b": ("b", "k", "n"), "y": ("b", "m", "n")},
    {"layout": dense.layouts()},
    cases=tuple(
        parse(f"out_prod/f32/{shape}")
        for shape in (
            "b1_m1_n1_k1",
            "b1_m256_n1_k1",
            "b2_m256_n16_k1",
            "b1_m256_n16_k16",
            "b3_m13_n7_k5",
            "b2_m67_n33_k70/layout=strided",
            "b2_m40_n68_k36/layout=permuted",
            "b6_m30_n17_k9/repeat_a=3",
            "b1_m64_n3_k0",
        )
    ),
    timed=tuple(
        parse(f"out_prod/f32/{shape}")
        for shape in ("b1_m4096_n4096_k1", "b1_m4096_n4096_k512", "b32_m256_n16_k16")
    ),
    types=("f32",),
)

MATMUL = (MATMUL_DENSE, OUT_PROD)
