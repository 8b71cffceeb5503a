"""matmul and out_prod: products of dense matrices as true singles, however they lie in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import lcm, prod

import numpy as np
from numpy.typing import NDArray

from vkbench.case import Case
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    MOST_GROUPS,
    Array,
    Arrays,
    Check,
    Forms,
    Kernel,
    Launch,
    Layout,
    Memory,
    Param,
    Problem,
    Settings,
    Shapes,
    Stage,
    Tuning,
    Variant,
    Work,
    too_large,
)
from vkbench_shaders.kernels.matrices import matmul_cases
from vkbench_shaders.kernels.matrices.cooperative.variants import Path
from vkbench_shaders.kernels.matrices.vectors import dense_vec
from vkbench_shaders.kernels.shared import dense, rows, sums
from vkbench_shaders.kernels.shared.cooperative import tiles as coop_tiles
from vkbench_shaders.kernels.shared.cooperative.panels import Factor
from vkbench_shaders.kernels.shared.cooperative.product import Product, element
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.quantisers import quants
from vkbench_shaders.rounded_factors import Floats, Of

Dims = Mapping[str, tuple[str, str, str]]

DIMS = ("b", "m", "n", "k")

# how a and b lie: as matrices' rows, or as transposed ones, whose columns are without gaps
_TRANSPOSED = {"transposed_a": "a", "transposed_b": "b", "transposed": "ab"}


def layouts(*more: str) -> Param:
    """The parameter `layout`: how matrices may lie, in these ways too."""
    return Param(
        default="contiguous",
        choices=("contiguous", "strided", "permuted", *more),
        description="how matrices lie: without gaps, rows with gaps, rows of a batch by turns"
        + (", some column by column" if more else ""),
    )


def layout(problem: Problem, binding: str) -> Layout:
    """Where matrices lie; permuted ones as heads of attention do, b along k as well."""
    _, rows_, columns = problem.full_shape(binding)
    shape = (dense.matrices(problem, binding), rows_, columns)
    match str(problem.params["layout"]):
        case "strided":
            return Layout.with_gaps(shape, *rows.gaps(problem, binding))
        case "permuted" if problem.kernel.binding(binding).dims == ("b", "k", "n"):
            return Layout.in_order(shape, (2, 0, 1))
        case "permuted":
            return Layout.in_order(shape, (1, 0, 2))
        case order if binding in _TRANSPOSED.get(order, ""):
            return Layout.in_order(shape, (0, 2, 1))
        case _:
            return Layout.contiguous(shape)


def accepts(types: Mapping[str, str]) -> bool:
    """Two operands of one format, or b in singles; y in singles, or as both operands."""
    a, b, y = (types[name] for name in "aby")
    return b in (a, "f32") and (y == "f32" or a == b == y)


def launch(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    """Row by row or column by column where there are a few vectors, in tiles otherwise."""
    if roles := _few_vectors(problem):
        return dense_vec.launches(problem, device, roles)
    return dense.launch_tiles(problem, device)


def _few_vectors(problem: Problem) -> dense_vec.Roles | None:
    return dense_vec.roles(problem) if problem.params.get("tile", "auto") == "auto" else None


def _parts(problem: Problem, device: DeviceFacts) -> int:
    """Parts of k; none where no sums go to scratch."""
    if roles := _few_vectors(problem):
        cut, waits = dense_vec.cut(problem, device, roles), False
    else:
        tile, cut = dense.choose(problem, device)
        waits = tile.waits(cut)
    return cut.parts if cut.parts > 1 or waits else 0


def candidates(problem: Problem, device: DeviceFacts) -> list[Settings]:
    """Parts of k for a few vectors; otherwise tiles and parts."""
    if roles := _few_vectors(problem):
        usual = dense.asked_parts(problem) or dense_vec.cut(problem, device, roles).parts
        return [{"split": parts} for parts in dense.nearest_parts(usual, problem.shape["k"])]
    return [{"tile": way.tile.name, "split": way.split} for way in dense.ways(problem, device)]


def scratch(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
    """Sums over parts of k where it is cut, and those that wait for more."""
    return (4 * _parts(problem, device) * prod(problem.shape[dim] for dim in "bmn"),)


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    """Why a device cannot multiply it, or None."""
    if reason := coop_tiles.refuses(problem.params):
        return reason
    depth = problem.shape["b"] * max(1, _parts(problem, device))
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


def _sums(problem: Problem, inputs: Arrays, rows: Array | None, of_a: Of, of_b: Of) -> Floats:
    stored = inputs["a"] if rows is None else inputs["a"].take(rows, axis=_rows_axis(problem))
    a, b = of_a(_operand(problem, "a", stored)), of_b(_operand(problem, "b", inputs["b"]))
    if _rows_axis(problem) == 2:
        a = a.swapaxes(1, 2)
    return a @ b


def _rows_axis(problem: Problem) -> int:
    """Which axis of a is m."""
    return problem.kernel.binding("a").dims.index("m")


def _infer(dims: Dims) -> Callable[[Shapes, Mapping[str, str]], dict[str, int]]:
    """Sizes from both operands; matrices of y are the fewest that both are for in turn."""

    def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
        sizes = {"b": lcm(*(shape[0] for shape in shapes.values()))}
        for name, shape in shapes.items():
            for dim, size in zip(dims[name][1:], shape[1:], strict=True):
                if sizes.setdefault(dim, size) != size:
                    raise UsageError(f"{dim} is {sizes[dim]} in one array and {size} in {name}")
        return {dim: sizes[dim] for dim in DIMS}

    return infer


def _arguments(types: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(types[name] for name in "aby")


def _stage(entry: str, module: str = "") -> Stage:
    return Stage(entry=entry, module=module, arguments=_arguments)


PORTABLE = portable(
    "matmul",
    launch,
    "f32_true",
    entry="matmul_8x8",
    arguments=_arguments,
    refuses=refuses,
    more=(
        _stage("matmul_8x4"),
        _stage("matmul_4x4"),
        _stage("matmul_rows", "matmul_vec"),
        _stage("matmul_columns", "matmul_vec"),
        Stage(entry="add_parts", arguments=lambda types: (types["y"],)),
    ),
    own=Memory(scratch=scratch),
)


def _product(problem: Problem, sums: str) -> Product:
    """y = a b by cooperative matrices."""
    return Product(
        left=_factor(problem, "a"),
        right=_factor(problem, "b"),
        left_binding=0,
        results=dense.results(problem),
        y_wide=dense.is_wide_y(problem),
        element=element(problem.types),
        sums=sums,
        tile=str(problem.params["tile"]),
        split=dense.asked_parts(problem),
    )


def _factor(problem: Problem, binding: str) -> Factor:
    lies = dense.operand(problem, binding)
    return Factor(
        fmt=problem.types[binding],
        rows=problem.shape["m" if binding == "a" else "n"],
        numbers=problem.shape["k"],
        matrices=dense.matrices(problem, binding),
        first=lies.first,
        row=lies.row,
        k=lies.k,
        matrix=lies.matrix,
        along=lies.along,
        wide=lies.wide,
        repeat=lies.serves,
    )


COOPERATIVE = Path(
    pose=_product,
    takes=lambda types: types["a"] != "f32",
    suits=lambda problem, device: _few_vectors(problem) is None,
    tunes=("tile", "split"),
)

_REPEATS = {"repeat_a": dense.repeat("a"), "repeat_b": dense.repeat("b")}
_CUTS = {"tile": dense.TILE.with_choices(*coop_tiles.NAMES), "split": dense.SPLIT}


def _kernel(
    name: str,
    description: str,
    dims: Dims,
    params: Mapping[str, Param],
    tuning: Tuning | None,
    cases: tuple[Case, ...],
    timed: tuple[Case, ...],
    types: tuple[str, ...],
    variants: tuple[Variant, ...] = (),
) -> Kernel:
    return Kernel(
        name=name,
        description=description,
        group="matmul",
        dims=DIMS,
        bindings=(
            declare_input("a", types, dims["a"], "left matrix"),
            declare_input("b", types, dims["b"], "right one"),
            declare_output("y", types, dims["y"], "products"),
        ),
        params={**params, **_REPEATS},
        tuning=tuning,
        forms=Forms(accepts=accepts, layout=layout, infer=_infer(dims), empty=DIMS),
        variants=(*variants, PORTABLE),
        inputs=inputs,
        check=Check(reference=sums.reference(_sums), deviations=sums.deviations(_sums), rows="m"),
        work=Work(flops=lambda problem: 2 * prod(problem.shape[dim] for dim in DIMS)),
        cases=cases,
        timed=timed,
    )


MATMUL_DENSE = _kernel(
    "matmul",
    "Multiplies dense matrices of a batch: y = a b.",
    {"a": ("b", "m", "k"), "b": ("b", "k", "n"), "y": ("b", "m", "n")},
    {"layout": layouts(*_TRANSPOSED), **_CUTS},
    Tuning(params=tuple(_CUTS), candidates=candidates),
    cases=matmul_cases.MATMUL,
    timed=matmul_cases.MATMUL_TIMED,
    types=("f32", "f16", "bf16"),
    variants=COOPERATIVE.variants(),
)

OUT_PROD = _kernel(
    "out_prod",
    "Adds up outer products of the rows of two matrices, for each of a batch: y = a^T b.",
    {"a": ("b", "k", "m"), "b": ("b", "k", "n"), "y": ("b", "m", "n")},
    {"layout": layouts()},
    None,
    cases=matmul_cases.OUT_PROD,
    timed=matmul_cases.OUT_PROD_TIMED,
    types=("f32",),
)

MATMUL = (MATMUL_DENSE, OUT_PROD)
