"""mul_mat_vec: a matrix of weights times a few vectors, the work of decoding one token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
from vkbench_shaders import formats
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Check,
    Forms,
    Kernel,
    Launch,
    Problem,
    Work,
    grid,
)
from vkbench_shaders.kernels.matrices import products
from vkbench_shaders.kernels.matrices.cooperative import fragments
from vkbench_shaders.kernels.matrices.vectors import by_q8_0, dense_teams, paths, staged, via_q8_1
from vkbench_shaders.kernels.matrices.vectors.via_q8_1 import Vectors
from vkbench_shaders.kernels.shared import rows, sums
from vkbench_shaders.kernels.shared.cooperative.panels import Factor
from vkbench_shaders.kernels.shared.cooperative.product import Product
from vkbench_shaders.rounded_factors import Floats, Of


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    m, n = problem.shape["m"], problem.shape["n"]
    columns = products.columns(problem)
    groups = grid(-(-m // products.ROWS), depth=-(-n // columns))
    return Launch(
        groups=groups,
        push=products.sizes(problem, groups),
        constants=paths.constants(problem, device, columns),
    )


def vectors(problem: Problem) -> Vectors:
    """The vectors that path via_q8_1 rounds."""
    return Vectors(
        count=problem.shape["n"],
        outer_stride=problem.layout("x").strides[0],
        numbered={"x_offset": 0, "x_stride": 1},
    )


_STAGING = via_q8_1.Staging(
    stage=staged.STAGE,
    launch=staged.launch,
    pays=staged.pays,
    candidates=staged.candidates,
    refuses=staged.refuses,
)


def _sums(problem: Problem, inputs: Arrays, rows: Array | None, of_weights: Of, of_x: Of) -> Floats:
    weights = of_weights(products.exact_weights(problem, inputs, rows))
    return of_x(products.exact_x(problem, inputs)) @ weights.T


def _product(problem: Problem, sums: str) -> Product:
    """What cooperative matrices multiply."""
    weights = Factor.of_rows(problem, "weights", problem.shape["m"], 1)
    return Product.of_vectors(problem, sums, weights, 1)


_SHAPES = (
    "m1_n1_k256",
    "m5_n2_k512",
    "m129_n3_k256",
    "m61_n5_k1024",
    "m13_n8_k512",
    "m31_n1_k4096",
    "m3_n4_k14336",
    "m67_n7_k256/layout=strided",
    "m9_n6_k1024/layout=strided",
    "m127_n1_k512/layout=strided",
)
_SHORT = ("m1_n1_k32", "m17_n9_k96")  # blocks of 32
_RAGGED = ("m1_n1_k1", "m2_n1_k7", "m37_n3_k127", "m19_n8_k1021")  # plain formats
_SIZED = tuple(f"m7_n2_k4096/threads={size}" for size in paths.SIZES)
_SIZED_FOR = ("f32", "q4_0", "q4_K")
_TEAMS = (
    "m37_n8_k1024/ahead=yes,rows=4,team=64,threads=512",
    "m67_n5_k1032/ahead=no,rows=4,team=32,threads=256",
    "m45_n9_k520/rows=8,team=32,threads=128",
    "m61_n3_k512/ahead=no,layout=strided,rows=8,team=64,threads=128",
    "m19_n11_k1021/rows=8,team=128,threads=256",
    "m135_n3_k512/rows=4,team=32,threads=1024",
)
_TIMED_N = (1, 2, 3, 4, 5, 8)


def _checked_cases() -> Iterator[Case]:
    for fmt in products.WEIGHTS:
        for x in products.VECTORS:
            if products.accepts({"weights": fmt, "x": x}):
                short = _SHORT if format_named(fmt).elements <= 32 else ()
                ragged = _RAGGED if fmt in formats.PLAIN else ()
                sizes = _SIZED if fmt in _SIZED_FOR else ()
                teams = _TEAMS if fmt in formats.PLAIN else ()
                every = (*_SHAPES, *short, *ragged, *sizes, *teams)
                for shape in by_q8_0.SHAPES if x == products.BYTES_ALONE else every:
                    yield parse(f"mul_mat_vec/{products.type_part(fmt, x)}/{shape}")


def _timed_cases() -> Iterator[Case]:
    for fmt in products.WEIGHTS:
        for x in products.VECTORS:
            if products.accepts({"weights": fmt, "x": x}) and x != "f16":
                for n in by_q8_0.TIMED_N if x == products.BYTES_ALONE else _TIMED_N:
                    yield parse(f"mul_mat_vec/{products.type_part(fmt, x)}/m4096_n{n}_k14336")


*_USUAL, _PORTABLE = paths.variants("mul_mat_vec", 3, vectors, launch, products.refuses, _STAGING)

MUL_MAT_VEC = Kernel(
    name="mul_mat_vec",
    description="Multiplies a matrix of weights with a few vectors: y = x weights^T.",
    group="matmul",
    dims=("m", "n", "k"),
    bindings=products.BINDINGS,
    params={
        "layout": rows.LAYOUT,
        "threads": paths.THREADS.with_choices(512, 1024),
        **staged.PARAMS,
        **dense_teams.PARAMS,
    },
    tuning=paths.tuning(products.columns, *staged.PARAMS, *dense_teams.PARAMS),
    forms=Forms(layout=rows.layout, infer=products.infer, accepts=products.accepts),
    variants=(
        dense_teams.VARIANT,
        *_USUAL,
        fragments.variant(_product, products.is_numbers, only_by_name=True),  # rounds x to f16
        *by_q8_0.variants(launch, products.refuses),
        replace(_PORTABLE, accepts=lambda types: types["x"] != products.BYTES_ALONE),
    ),
    inputs=products.inputs,
    check=Check(reference=sums.reference(_sums), deviations=sums.deviations(_sums), rows="m"),
    work=Work(flops=products.flops),
    cases=CaseList(_checked_cases),
    timed=CaseList(_timed_cases),
)
